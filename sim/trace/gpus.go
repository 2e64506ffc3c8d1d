package trace

import (
	"strconv"
	"strings"
)

// gpus is what a run had, or else what it asked for.
func (a *accounting) gpus(t *table) (int32, error) {
	tres, gres := a.columns.alloc, a.columns.allocGRES
	if t.text(tres) == "" && t.text(gres) == "" {
		tres, gres = a.columns.req, a.columns.reqGRES
	}
	n, err := t.gpusOfTRES(tres)
	if n > 0 || err != nil {
		return n, err
	}
	return t.gpusOfGRES(gres)
}

// gpusOfTRES reads gres/gpu of a list of TRES.
func (t *table) gpusOfTRES(c column) (int32, error) {
	typed, total := int64(0), int64(-1)
	for tres := range strings.SplitSeq(t.text(c), ",") {
		name, count, _ := strings.Cut(tres, "=")
		name = strings.ToLower(name)
		if name != "gres/gpu" && !strings.HasPrefix(name, "gres/gpu:") {
			continue
		}
		n, err := strconv.ParseInt(count, 10, 64)
		if err != nil || n < 0 || n > maxGPUs {
			return 0, t.wrong(c.name, t.text(c), "whole numbers of GPUs from 0, such as gres/gpu=4")
		}
		if name == "gres/gpu" {
			total = n
		} else {
			typed += n
		}
	}
	if total < 0 {
		total = typed
	}
	return int32(total), nil
}

// gpusOfGRES reads a list as Slurm kept it before 20.11: gpu:4, gpu:v100:2 or gpu, each with gres: or gres/ before it
// or not. Both columns are of all nodes together, as those of TRES are.
func (t *table) gpusOfGRES(c column) (int32, error) {
	total := int64(0)
	for gres := range strings.SplitSeq(strings.ToLower(t.text(c)), ",") {
		gres = strings.TrimPrefix(strings.TrimPrefix(gres, "gres:"), "gres/")
		parts := strings.FieldsFunc(gres, func(r rune) bool { return r == ':' || r == '=' })
		if len(parts) == 0 || parts[0] != "gpu" {
			continue
		}
		n, err := int64(1), error(nil)
		if last := parts[len(parts)-1]; len(parts) > 1 && (len(parts) > 2 || startsAsNumber(last)) {
			n, err = strconv.ParseInt(last, 10, 64)
		}
		if total += n; err != nil || n < 0 || total > maxGPUs {
			return 0, t.wrong(c.name, t.text(c), "whole numbers of GPUs from 0, such as gpu:4 or gpu:v100:4")
		}
	}
	return int32(total), nil
}

// startsAsNumber says that a word is a number, if anything: it begins with a digit or a sign.
func startsAsNumber(word string) bool { return strings.ContainsAny(word[:1], "0123456789+-") }
