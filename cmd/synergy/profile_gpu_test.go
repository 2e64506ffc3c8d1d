//go:build gpu

package main

import (
	"bytes"
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// TestModelsOnThisMachinesGPUAreMeasured trains a ResNet-18 and a GPT of 110 M parameters on the first GPU, and
// measures both. It wants a GPU, torch for TORCH_PYTHON (or python3) and eight cores, and fails without.
func TestModelsOnThisMachinesGPUAreMeasured(t *testing.T) {
	python := cmp.Or(os.Getenv("TORCH_PYTHON"), "python3")
	out, err := exec.Command(python, "-c",
		"import torch; torch.zeros(1).cuda(); print(torch.cuda.get_device_name())").CombinedOutput()
	if err != nil {
		t.Fatalf(
			"this test is for machines with one of NVIDIA's GPUs and a torch that sees it (TORCH_PYTHON=%s): %v\n%s",
			python, err, out)
	}
	t.Logf("on %s", bytes.TrimSpace(out))
	script, err := filepath.Abs("testdata/gpu/train.py")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("CUDA_VISIBLE_DEVICES", "0")
	images, words := measureModel(t, python, script, "resnet", "256"), measureModel(t, python, script, "gpt", "16")
	if most := images.Throughput[len(images.Throughput)-1][0]; most < 2*images.Throughput[0][0] {
		t.Errorf("images: %v samples/s with %v cores: want twice as many with all as with one, whose work is to decode",
			images.Throughput, images.CoresPerGPU)
	}
	if most := words.Throughput[len(words.Throughput)-1][0]; words.Rate(sensitivity.Share{Cores: 2,
		Memory: 1 << 20}) < 0.85*most {
		t.Errorf("words: %v samples/s with %v cores: want all with two", words.Throughput, words.CoresPerGPU)
	}
}

// measureModel is a user's call.
func measureModel(t *testing.T, python, script, model, batch string) *sensitivity.Profile {
	t.Helper()
	t.Chdir(t.TempDir())
	began := time.Now()
	var stdout, stderr bytes.Buffer
	code := run([]string{"profile", "--local", "--pattern", "step", "--batch", batch, "--checkpoint", "USR1@60",
		"--memory", "100", "--plot", model,
		"-o", model + ".json", "--", python, script, model}, &stdout, &stderr)
	t.Logf("%s in %.0f s:\n%s%s", model, time.Since(began).Seconds(), &stderr, &stdout)
	if code != exitGood {
		t.Fatalf("exit status %d", code)
	}
	text, err := os.ReadFile(model + ".json")
	if err != nil {
		t.Fatal(err)
	}
	p, err := sensitivity.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if p.StartSeconds < 1 || p.CheckpointSeconds <= 0 || strings.Contains(stderr.String(), "does not listen") {
		t.Errorf("%s: %g s to save and %g s to start", model, p.CheckpointSeconds, p.StartSeconds)
	}
	return p
}
