package slurmrest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/limits"
)

// Limits reads what the site has set: the partitions from slurmctld, associations and QOS from slurmdbd. What slurmdbd
// tells is 2 kB and a fifth of a millisecond for each association, so it is for the caller to ask seldom. A cluster
// without slurmdbd has no limits but its partitions'.
func (c *Client) Limits(ctx context.Context) (site limits.Site, failure error) {
	defer c.discreet(&failure)
	told, err := ask(ctx, c.link, c.api.Partitions())
	if err != nil {
		return limits.Site{}, fmt.Errorf("read the site's limits: partitions: %w", err)
	}
	site.Partitions = told.Limits
	if told.Storage != slurmdbd {
		return site, nil
	}
	if err := c.accounted(ctx, told.Cluster, &site); err != nil {
		return limits.Site{}, fmt.Errorf("read the site's limits: %w", err)
	}
	return site, nil
}

const slurmdbd = "accounting_storage/slurmdbd"

// accounted reads what is set in accounting. No association at all is no answer: the token's user has one itself.
func (l *link) accounted(ctx context.Context, cluster string, site *limits.Site) (err error) {
	if site.Enforced = l.enforced(ctx); !site.Enforced {
		return ctx.Err()
	}
	if site.Associations, err = ask(ctx, l, l.api.Associations(cluster)); err != nil {
		return fmt.Errorf("associations: %w", notServed(err))
	}
	if len(site.Associations) == 0 {
		return fmt.Errorf("associations: none of cluster %q: %w", inLine(cluster, ""), bridge.ErrRefused)
	}
	if site.QOS, err = ask(ctx, l, l.api.QOS()); err != nil {
		return fmt.Errorf("qos: %w", notServed(err))
	}
	return nil
}

// notServed says what to do about a slurmrestd that knows slurmctld's part alone although there is a slurmdbd.
func notServed(err error) error {
	if failure := (*Failure)(nil); errors.As(err, &failure) && failure.Status == http.StatusNotFound {
		return fmt.Errorf(
			"%w: slurmrestd does not serve slurmdbd's part: start it with -s openapi/slurmctld,openapi/slurmdbd", err)
	}
	return err
}

// enforced says whether slurmctld holds jobs to limits. slurmrestd does not tell, so scontrol is asked; where there is
// none, limits that were set are taken to be meant.
func (l *link) enforced(ctx context.Context) bool {
	said, err := l.scontrolSays(ctx, "show", "config")
	if err != nil {
		return true
	}
	return enforces(said)
}

// enforces reads the line of the configuration that says what is enforced.
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
