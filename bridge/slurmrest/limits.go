package slurmrest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/limits"
)

// Limits reads the site's limits: partitions from slurmctld, associations and QOS from slurmdbd. slurmdbd's answer is 2
// kB and a fifth of a millisecond per association, so callers should ask seldom. A cluster without slurmdbd has only
// the limits of its partitions.
func (c *Client) Limits(ctx context.Context) (site limits.Site, failure error) {
	defer c.hideToken(&failure)
	told, err := ask(ctx, c.link, c.api.Partitions())
	if err != nil {
		return limits.Site{}, fmt.Errorf("read the site's limits: partitions: %w", err)
	}
	site.Partitions = told.Limits
	if told.Storage != slurmdbd {
		return site, nil
	}
	if err := c.readAccounting(ctx, told.Cluster, &site); err != nil {
		return limits.Site{}, fmt.Errorf("read the site's limits: %w", err)
	}
	return site, nil
}

const slurmdbd = "accounting_storage/slurmdbd"

// readAccounting reads the limits in accounting, or nothing if slurmctld does not enforce them. A list without
// associations is an error, since at least the token's user must have one.
func (l *link) readAccounting(ctx context.Context, cluster string, site *limits.Site) (err error) {
	if site.Enforced = l.enforcesLimits(ctx); !site.Enforced {
		return ctx.Err()
	}
	if site.Associations, err = ask(ctx, l, l.api.Associations(cluster)); err != nil {
		return fmt.Errorf("associations: %w", notServed(err))
	}
	if len(site.Associations) == 0 {
		return fmt.Errorf("associations: none of cluster %q: %w", inLine(cluster, ""), slurm.ErrRefused)
	}
	if site.QOS, err = ask(ctx, l, l.api.QOS()); err != nil {
		return fmt.Errorf("qos: %w", notServed(err))
	}
	return nil
}

// notServed adds to a 404 what to do: slurmrestd then serves only slurmctld's part although there is a slurmdbd. Other
// errors are returned as they are.
func notServed(err error) error {
	if failure := (*Failure)(nil); errors.As(err, &failure) && failure.Status == http.StatusNotFound {
		return fmt.Errorf(
			"%w: slurmrestd does not serve slurmdbd's part: start it with -s openapi/slurmctld,openapi/slurmdbd", err)
	}
	return err
}

// enforcesLimits reports whether slurmctld enforces limits. slurmrestd does not tell, so scontrol is asked; if that
// fails, limits count as enforced, which at worst gives jobs less than they might get.
func (l *link) enforcesLimits(ctx context.Context) bool {
	said, err := l.scontrolSays(ctx, "show", "config")
	if err != nil {
		return true
	}
	return enforces(said)
}

// enforces reads AccountingStorageEnforce from the output of scontrol show config. Without such a line limits count as
// enforced.
func enforces(config string) bool {
	lines := bufio.NewScanner(strings.NewReader(config))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), "=")
		if strings.TrimSpace(name) != "AccountingStorageEnforce" {
			continue
		}
		return slices.ContainsFunc(strings.Split(strings.TrimSpace(value), ","), func(word string) bool {
			return word == "limits" || word == "safe" || word == "all"
		})
	}
	return true
}
