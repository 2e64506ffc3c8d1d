package bridge

import (
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/share/node"
)

// TestANodeUnderstandsWhatTheDaemonSaysOfASharedGPU, and of an annotation that says nothing of one, nothing.
func TestANodeUnderstandsWhatTheDaemonSaysOfASharedGPU(t *testing.T) {
	said := annotation{V: annotationVersion, Job: 4711, Round: 42, Why: `its turn, "share":{"class":"high"}`,
		Share: &slotGrant{Class: share.Low, Memory: 6144, SLO: 50, Device: "g1"}}
	manager := []string{"SLURM_JOB_ID=4711", "SLURM_JOB_UID=1000", "SLURM_JOB_GPUS=1"}
	want := share.Stamp{V: share.StampVersion, Job: 4711, UID: 1000, GPU: 1, Class: share.Low, Memory: 6144, SLO: 50}
	if got, err := node.StampOf(append(manager, "SLURM_JOB_EXTRA="+said.String())); err != nil || got != want {
		t.Errorf("%s: %+v, %v; want %+v", said, got, err, want)
	}
	said.Share = nil
	if got, err := node.StampOf(append(manager, "SLURM_JOB_EXTRA="+said.String())); err != node.ErrNotShared {
		t.Errorf("%s: %+v, %v", said, got, err)
	}
}
