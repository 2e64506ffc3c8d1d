// Command deft runs experiment files of Deft (NSDI'23): models that share one GPU, emulated in virtual time, or jobs of
// Slurm. It is for researchers; README.md says how it is used.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run runs a command line and returns the exit status: 0, or 1 after an error.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	root := rootCommand()
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetArgs(args)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(stderr, "deft:", err)
		return 1
	}
	return 0
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "deft",
		Short:         "Deft's experiments: models that share one GPU, emulated or through Slurm",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(runCommand(), sweepCommand())
	return root
}

// Names and messages of others are cut to these lengths, in bytes.
const (
	longestName     = 24
	longestSentence = 400
)

// table writes rows in columns, the first row being the titles.
func table(out io.Writer, rows [][]string) error {
	columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(columns, strings.Join(row, "\t"))
	}
	return columns.Flush()
}

// positive reads numbers above 0 and up to a million.
func positive(words []string) ([]float64, error) {
	const beyond = 1e6
	var numbers []float64
	for _, word := range words {
		x, err := strconv.ParseFloat(word, 64)
		if err != nil || !(x > 0 && x <= beyond) { // written so that NaN fails
			return nil, fmt.Errorf("%q: want a number above 0", word)
		}
		numbers = append(numbers, x)
	}
	return numbers, nil
}

func several(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
