package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/gres/inventory"
	"github.com/synergy-slurmd/synergy-slurmd/gres/nvml"
)

// writeNode prints a node for people: its GPUs, and the lines of Slurm's configuration.
func writeNode(w io.Writer, n inventory.Node, lines inventory.Lines) error {
	var b strings.Builder
	fmt.Fprintf(&b, "node %s: %s, driver %s, %s\n", n.Name, countOrNo(len(n.GPUs), "GPU"), n.Driver, mpsDaemon(n))
	for _, u := range n.Unreadable {
		fmt.Fprintf(&b, "GPU with index %d cannot be read: %s\n", u.Index, u.Reason)
	}
	if len(n.GPUs) > 0 {
		b.WriteString("\n")
		writeGPUs(&b, n.GPUs)
		writeLines(&b, n, lines)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// countOrNo is a number of things, in words for none.
func countOrNo(n int, word string) string {
	switch n {
	case 0:
		return "no " + word + "s"
	case 1:
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// mpsDaemon says whether a daemon of MPS runs on the node.
func mpsDaemon(n inventory.Node) string {
	if n.MPSDaemon {
		return "MPS daemon running"
	}
	return "no MPS daemon"
}

// writeGPUs prints a line for each GPU, and one for each part that MIG has made of it. What the driver does not tell is
// a dash.
func writeGPUs(w io.Writer, gpus []inventory.GPU) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "GPU\ttype\tmemory\tPCI address\tNUMA\tnear cores\tMIG\tMPS clients\tmode\tUUID")
	for _, g := range gpus {
		fmt.Fprintf(
			t,
			"%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			g.Minor,
			g.Type,
			mebibytes(g.Memory),
			textOrDash(g.PCI),
			numberOrDash(g.NUMA),
			textOrDash(g.Near.Cores.String()),
			migText(g.MIG),
			numberOrDash(g.MPSClients),
			g.ComputeMode,
			g.UUID,
		)
		for _, p := range g.MIG.Parts {
			fmt.Fprintf(t, "  part\t%s\t%s\t\t\t\t\t\t\t%s\n", p.Profile, mebibytes(p.Memory), p.UUID)
		}
	}
	t.Flush()
}

// migText is the mode of MIG, and the one after the next reset of the GPU, if it was set to another.
func migText(m inventory.MIG) string {
	if m.Pending != "" {
		return fmt.Sprintf("%s, %s after a reset", m.Mode, m.Pending)
	}
	return m.Mode
}

func mebibytes(m gres.Memory) string { return fmt.Sprintf("%d MiB", int64(m)) }

// numberOrDash is a number, or a dash if it is unknown.
func numberOrDash(n int) string {
	if n < 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

// textOrDash is a text, or a dash if it is empty: unknown.
func textOrDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// writeLines prints what belongs into gres.conf and slurm.conf, with the notes as comments.
func writeLines(w io.Writer, n inventory.Node, lines inventory.Lines) {
	fmt.Fprintf(w, "\n# gres.conf\n%s\n", strings.Join(lines.GresConf, "\n"))
	fmt.Fprintf(w,
		"\n# slurm.conf: GresTypes= for all nodes, and Gres= in the line that NodeName=%s "+
			"has\nGresTypes=%s\nNodeName=%s Gres=%s\n", n.Name, lines.Types, n.Name, lines.Gres)
	if len(lines.Notes) > 0 {
		fmt.Fprintf(w, "\n# %s\n", strings.Join(lines.Notes, "\n# "))
	}
}

// writeSample prints how busy GPUs are, a line for each. What the driver does not tell is a dash.
func writeSample(w io.Writer, s nvml.Sample) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%s\n", s.At.Format("2006-01-02 15:04:05"))
	fmt.Fprintln(t, "GPU\tbusy\tmemory\tof the job\tUUID")
	for _, r := range s.GPUs {
		if r.Err != nil {
			fmt.Fprintf(t, "%d\tcannot be read: %v\n", r.Minor, r.Err)
			continue
		}
		fmt.Fprintf(
			t,
			"%d\t%s\t%s\t%s\t%s\n",
			r.Minor,
			percentOrDash(r.Busy),
			mebibytes(r.Memory),
			memoryOrDash(r.Mine),
			r.UUID,
		)
	}
	return t.Flush()
}

// percentOrDash is a part in percent, or a dash if the driver does not tell it.
func percentOrDash(n int) string {
	if n == nvml.Unknown {
		return "-"
	}
	return strconv.Itoa(n) + " %"
}

// memoryOrDash is an amount of memory, or a dash if the driver does not tell it.
func memoryOrDash(m gres.Memory) string {
	if m == nvml.Unknown {
		return "-"
	}
	return mebibytes(m)
}
