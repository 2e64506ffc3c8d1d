package main

import (
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

// traceCommand has the commands for workloads beside simulating them.
func traceCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "trace",
		Short: "see what is in a trace, convert it, or draw a new one",
		Long: `synergy trace works on workloads that are files.

A recorded trace says of each job its model and how many iterations it trains, and can be simulated as it is.
A site's log says how long jobs ran, and knows no models; they are drawn when it is simulated or converted.
A file in any of these formats is recognised from what it holds, also when it is compressed with gzip:

  recorded   CSV job_id,model,arrival,iterations,gpus, as the paper's artifact writes it, without a header.
             Remarks behind #, a header in any order and a column user may be there.
  philly     cluster_job_log of github.com/msr-fiddle/philly-traces, JSON
  condensed  CSV with the header timestamp,duration,num_gpus,gpu_time,cluster
  openb      pod list of github.com/alibaba/clusterdata, cluster-trace-gpu-v2023, CSV
  sacct      what Slurm prints of your own site, with
             sacct --allusers --duplicates --parsable2 --starttime=now-90days \
               --format=JobID,User,Partition,State,Submit,Start,End,ElapsedRaw,AllocTRES,ReqTRES`,
		Example: `  synergy trace inspect sacct.txt
  synergy trace convert sacct.txt --to recorded -o jobs.csv
  synergy trace generate --load 9 --jobs 1000 -o jobs.csv`,
		Args:                  cobra.NoArgs,
		DisableFlagsInUseLine: true,
		RunE:                  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	command.AddCommand(inspectCommand(), convertCommand(), generateCommand())
	return command
}

// inspectCommand is synergy trace inspect: its help and its flags.
func inspectCommand() *cobra.Command {
	o, json := newOptions(), ""
	command := &cobra.Command{
		Use:   "inspect FILE [options]",
		Short: "say what is in a trace, with histograms",
		Long: `synergy trace inspect says what is in a recorded trace or in a site's log: how many jobs, of how many users, with how many
GPUs, how long they ran, when they came, and what load they are; and which of a log's jobs cannot be simulated, and why.
FILE is - for the standard input.`,
		Example: `  synergy trace inspect jobs.csv
  synergy trace inspect cluster_job_log --json=philly.json
  sacct --allusers --parsable2 --format=JobID,User,Submit,ElapsedRaw,AllocTRES | synergy trace inspect -`,
		Args:                  cobra.ExactArgs(1),
		DisableFlagsInUseLine: true,
		RunE: func(c *cobra.Command, args []string) error {
			t, err := openTrace(c, args[0], o.recorded.format)
			if err != nil {
				return err
			}
			s := trace.Inspect(t)
			if json == "" {
				return asFailed(s.WriteText(c.OutOrStdout()))
			}
			return save("json", json, c.OutOrStdout(), s.WriteJSON)
		},
	}
	g := o.subset("Options", "format")
	g.flags.StringVar(&json, "json", "", "write JSON in place of the text, or to a `file`")
	g.flags.Lookup("json").NoOptDefVal = stdioName
	o.defineFlags(command, g)
	return command
}

// openTrace reads a trace from a file, or from the standard input for "-". format is the name of its format. If that is
// empty, the format is recognised from the content.
func openTrace(c *cobra.Command, path, format string) (*trace.Trace, error) {
	f, err := trace.ParseFormat(format)
	if err != nil {
		return nil, fmt.Errorf("--%w", err)
	}
	if path == stdioName {
		return trace.Read("standard input", c.InOrStdin(), f)
	}
	return trace.Open(path, f)
}

// asFailed wraps an error that no better command line would have prevented, for the exit status; nil stays nil.
func asFailed(err error) error {
	if err != nil {
		return failed{err}
	}
	return nil
}

// save writes a file, whole or not at all: it is written beside the old one, which it then replaces. For "-" it writes
// to the standard output. A file whose name ends in .gz is compressed. option is the flag that named the path, for
// errors.
func save(option, path string, stdout io.Writer, write func(io.Writer) error) error {
	switch path {
	case stdioName:
		return asFailed(write(stdout))
	case "":
		return fmt.Errorf("--%s: want a name", option)
	}
	file, err := openDraft(path)
	if err != nil {
		return fmt.Errorf("--%s %s: %w", option, path, withoutPath(err))
	}
	replaces := file.Name() != path
	if strings.HasSuffix(path, ".gz") {
		write = gzipped(write)
	}
	err = cmp.Or(write(file), file.Close())
	if err == nil && replaces {
		err = cmp.Or(os.Chmod(file.Name(), 0o644), os.Rename(file.Name(), path))
	}
	if err == nil {
		return nil
	}
	if replaces {
		os.Remove(file.Name())
	}
	return failed{fmt.Errorf("--%s %s: %w", option, path, withoutPath(err))}
}

// gzipped makes a function that writes through gzip. Closing it writes the rest, whose error counts, too.
func gzipped(write func(io.Writer) error) func(io.Writer) error {
	return func(w io.Writer) error {
		packed := gzip.NewWriter(w)
		return cmp.Or(write(packed), packed.Close())
	}
}

// writeRecorded writes a recorded trace, and states the ratio for which iterations were counted if it is not that of
// the paper's artifact.
func writeRecorded(w io.Writer, jobs []trace.Job, ratio int) error {
	if ratio != publishedRatio {
		if err := trace.WriteRatio(w, ratio); err != nil {
			return err
		}
	}
	return trace.WriteRecorded(w, jobs)
}
