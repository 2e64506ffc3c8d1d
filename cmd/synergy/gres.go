package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/gres/inventory"
	"github.com/synergy-slurmd/synergy-slurmd/gres/nvml"
)

// gresOptions are the flags of synergy gres.
type gresOptions struct {
	layout    inventory.Layout
	node      string
	inventory string // a file that --json wrote, in place of this host's GPUs
	check     bool
	slurmd    string // a file with the output of slurmd -G
	job       int
	gpus      string // numbers, as in SLURM_JOB_GPUS
	every     durationFlag
	json      string
}

// gresCommand is synergy gres: its help and its flags.
func gresCommand() *cobra.Command {
	var o gresOptions
	command := &cobra.Command{
		Use:   "gres [options]",
		Short: "say what GPUs a node has, what Slurm should know of them, and whether it does",
		Long: `synergy gres sees the GPUs of the node that it runs on through NVIDIA's library: type, memory, UUID, PCI address, NUMA node and
near cores, the state of MIG and of MPS. It prints the lines of gres.conf and slurm.conf that fit them. It changes nothing.

With --check it compares them with what Slurm believes: slurmctld (scontrol show node), and on the node itself also slurmd, which
reads gres.conf (slurmd -G). Each difference is one line with what is, what should be and what to do.

What --json writes on one node can be read on another with --inventory, so that nodes are checked from a login host.
With --job it shows how busy the GPUs are that a job uses on this node; with --gpus, those of the numbers that Slurm told a job.

The exit status is 0, 1 where Slurm is wrong about the node, 2 for a wrong command line or file, and 3 where it could not be seen: no driver, a
build without NVIDIA's library, no slurmctld. docs/node-setup.md has the JSON format and more.`,
		Example: `  synergy gres
  synergy gres --shards 4                                lines for GPUs that four jobs each may share
  synergy gres --check
  synergy gres --json=n1.json                            on the node
  synergy gres --inventory n1.json --check               anywhere that scontrol works
  synergy gres --job 17 --every 5s                       until interrupted, or until the job has ended
  synergy gres --gpus $SLURM_JOB_GPUS --json             in a job's script`,
		Args:                  cobra.NoArgs,
		DisableFlagsInUseLine: true,
		RunE:                  func(c *cobra.Command, _ []string) error { return o.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr()) },
	}
	setGroups(command, o.groups()...)
	return command
}

// groups defines the flags of synergy gres.
func (o *gresOptions) groups() []group {
	lines, check, job, output := newGroup("Lines"), newGroup("Check"), newGroup("Use"), newGroup("Output")
	lines.flags.IntVar(&o.layout.Shards, "shards", 0, "divide each GPU into `N` shards, with one Type per device")
	lines.flags.BoolVar(&o.layout.Cores, "cores", false,
		"put the near cores into Cores=; Slurm then keeps all other jobs off the GPU")
	lines.flags.StringVar(&o.node, "node", "",
		"what Slurm calls the node (default SLURMD_NODENAME, or the host's short `name`)")
	lines.flags.StringVar(&o.inventory, "inventory", "",
		"take what --json wrote into a `file`, on whatever node, and not this host's GPUs; - for the standard input")
	check.flags.BoolVar(&o.check, "check", false, "compare with what Slurm believes")
	check.flags.StringVar(&o.slurmd, "slurmd", "",
		"what slurmd -G printed on the node, in a `file` (default: slurmd is asked where the node is this one)")
	job.flags.IntVar(&o.job, "job", 0, "show how busy the GPUs are that the job with this `ID` uses on this node")
	job.flags.StringVar(&o.gpus, "gpus", "",
		"show how busy these GPUs are, by the `list` that a job finds in SLURM_JOB_GPUS")
	job.flags.Var(&o.every, "every", "show it again and again, until interrupted")
	output.flags.StringVar(&o.json, "json", "", "write JSON in place of the text, or to a `file`")
	output.flags.Lookup("json").NoOptDefVal = stdioName
	return []group{lines, check, job, output}
}

// validate refuses impossible values, and options that do not go together. It is called before the driver or Slurm is
// asked, so that a wrong command line is told at once.
func (o *gresOptions) validate() error {
	switch {
	case o.layout.Shards < 0 || o.layout.Shards > maxShards:
		return fmt.Errorf("--shards = %d: want 1 to %d", o.layout.Shards, maxShards)
	case o.node != "" && !inventory.IsNode(o.node):
		return fmt.Errorf("--node = %.80q: want the name of one node", o.node)
	case o.slurmd != "" && !o.check:
		return errors.New("--slurmd: want --check, too")
	case o.job < 0:
		return fmt.Errorf("--job = %d: want the ID of a job", o.job)
	case o.job > 0 && o.gpus != "":
		return errors.New("--job, --gpus: want one of them")
	case o.showsUse() && (o.check || o.inventory != ""):
		return errors.New("--job, --gpus: want no --check and no --inventory, since they look at this node as it is")
	case o.every > 0 && !o.showsUse():
		return errors.New("--every: want --job or --gpus, too")
	}
	if _, err := inventory.ParseSet(o.gpus); err != nil {
		return fmt.Errorf("--gpus: %w", err)
	}
	return nil
}

// showsUse reports whether the command shows how busy GPUs are, in place of what the node has.
func (o *gresOptions) showsUse() bool { return o.job > 0 || o.gpus != "" }

// maxShards is more shards than anyone would divide a GPU into.
const maxShards = 1000

// run does one of three things, as the options ask: it shows how busy GPUs are, compares the node with what Slurm
// believes, or shows what the node has.
func (o *gresOptions) run(ctx context.Context, stdout, stderr io.Writer) error {
	if err := o.validate(); err != nil {
		return err
	}
	if o.showsUse() {
		return o.showUse(ctx, stdout)
	}
	n, err := o.nodeInventory()
	if err != nil {
		return err
	}
	if o.check {
		return o.checkNode(ctx, n, stdout, stderr)
	}
	return o.showInventory(n, stdout)
}

// nodeInventory returns the node's inventory: that of this host, or with --inventory one from a file. In either case
// --node goes before the name that the inventory would have.
func (o *gresOptions) nodeInventory() (inventory.Node, error) {
	if o.inventory == "" {
		return o.hostInventory()
	}
	text, err := readFile(o.inventory)
	if err != nil {
		return inventory.Node{}, fmt.Errorf("--inventory: %w", err)
	}
	n, err := inventory.Decode(text)
	if err != nil {
		return inventory.Node{}, fmt.Errorf("--inventory %s: %w", o.inventory, err)
	}
	n.Name = cmp.Or(o.node, n.Name)
	return n, nil
}

// hostInventory reads this host's GPUs through NVIDIA's library. Without a driver the error is unseen: the command line
// was right.
func (o *gresOptions) hostInventory() (inventory.Node, error) {
	name, err := o.nodeName()
	if err != nil {
		return inventory.Node{}, err
	}
	driver, err := nvml.Open(nvmlHost())
	if err != nil {
		return inventory.Node{}, unseen{err}
	}
	defer driver.Close()
	n, err := driver.Inventory(name, time.Now())
	if err != nil {
		return inventory.Node{}, unseen{err}
	}
	return n, nil
}

// nvmlHost is this machine for the GPU library, with the folder in which an MPS daemon is found if it is not the usual
// one.
func nvmlHost() nvml.Host { return nvml.Host{MPSPipes: os.Getenv("CUDA_MPS_PIPE_DIRECTORY")} }

// nodeName returns Slurm's name of this node: that of --node, or else the one that Slurm tells a job, or else the
// host's short name.
func (o *gresOptions) nodeName() (string, error) {
	long, err := os.Hostname()
	short, _, _ := strings.Cut(long, ".")
	name := cmp.Or(o.node, os.Getenv("SLURMD_NODENAME"), short)
	if err != nil || !inventory.IsNode(name) {
		return "", fmt.Errorf("the host's name %.80q is no node's: say with --node what Slurm calls it", name)
	}
	return name, nil
}

// maxFile bounds the files that are read, in bytes.
const maxFile = 4 << 20

// readFile reads a file, or the standard input for "-". The file may be another user's, so its size is bounded.
func readFile(path string) ([]byte, error) {
	in := io.Reader(os.Stdin)
	if path != stdioName {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, withoutPath(err))
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, withoutPath(err))
	case len(text) > maxFile:
		return nil, fmt.Errorf("%s: more than %d bytes", path, maxFile)
	}
	return text, nil
}

// showInventory writes the inventory and the lines of Slurm's configuration that fit it, or with --json the inventory
// alone.
func (o *gresOptions) showInventory(n inventory.Node, stdout io.Writer) error {
	lines, err := n.Lines(o.layout)
	if err != nil {
		return fmt.Errorf("--shards: %w", err)
	}
	if o.json == "" {
		return asFailed(writeNode(stdout, n, lines))
	}
	return save("json", o.json, stdout, func(w io.Writer) error {
		text, err := n.Encode()
		if err == nil {
			_, err = w.Write(text)
		}
		return err
	})
}
