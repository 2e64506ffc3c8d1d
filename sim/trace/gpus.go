package trace

import (
	"strconv"
	"strings"
)

// gpus returns the GPUs that a run had, or if nothing was allocated, those that it asked for. It is 0 if none are
// recorded, and the job is then left out. A list of TRES without GPUs does not say that there were none, since the site
// may not have tracked them; so GRES is read then.
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

// gpusOfTRES reads gres/gpu from a list of TRES. If only types are listed (gres/gpu:v100), it returns their sum, which
// is not added to gres/gpu, since that already contains it. If the list has neither, the result is 0.
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

// gpusOfGRES reads a list in the form before Slurm 20.11: gpu:4, gpu:v100:2 or gpu, each with or without the prefix
// gres: or gres/. Without a number, as gpu or gpu:v100, it is one GPU. Like those of TRES, the counts are for all nodes
// together.
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

// startsAsNumber says whether a word begins with a digit or a sign, so that it is a number or nothing valid.
func startsAsNumber(word string) bool { return strings.ContainsAny(word[:1], "0123456789+-") }
