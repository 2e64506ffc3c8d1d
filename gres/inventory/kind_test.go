package inventory_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/gres/inventory"
)

func TestGPUsAreCalledAsSitesCallThem(t *testing.T) {
	for name, want := range map[string]string{
		"NVIDIA A100-SXM4-40GB":          "a100",
		"NVIDIA A100 80GB PCIe":          "a100",
		"Mock NVIDIA A100-SXM4-40GB":     "a100",
		"NVIDIA H100 80GB HBM3":          "h100",
		"NVIDIA H100 NVL":                "h100",
		"NVIDIA H200":                    "h200",
		"NVIDIA GH200 144G HBM3e":        "gh200",
		"NVIDIA GB200":                   "gb200",
		"NVIDIA B200":                    "b200",
		"NVIDIA L4":                      "l4",
		"NVIDIA L40S":                    "l40s",
		"NVIDIA A10G":                    "a10g",
		"NVIDIA RTX A6000":               "a6000",
		"NVIDIA RTX 6000 Ada Generation": "rtx_6000",
		"NVIDIA RTX PRO 6000 Blackwell Server Edition": "rtx_pro_6000",
		"NVIDIA GeForce RTX 3090":                      "rtx_3090",
		"NVIDIA GeForce RTX 3090 Ti":                   "rtx_3090_ti",
		"NVIDIA GeForce GTX 1080 Ti":                   "gtx_1080_ti",
		"Quadro RTX 8000":                              "rtx_8000",
		"Tesla V100-SXM2-32GB":                         "v100",
		"Tesla K80":                                    "k80",
		"Tesla T4":                                     "t4",
		"NVIDIA TITAN RTX":                             "nvidia_titan_rtx",
		"TITAN Xp":                                     "titan_xp",
		"NVIDIA SXM5 Engineering Sample":               "nvidia_sxm5_engineering_sample",
		"3090":                                         "gpu",
		"4k":                                           "gpu",
		"":                                             "gpu",
		"NVIDIA \u202eGPU\nGres=gpu:8":                 "nvidia__gpu_gres_gpu_8",
		"NVIDIA Graphics Device " + strings.Repeat("very ", 30): "nvidia_graphics_device_" + strings.Repeat("very_",
			8) + "v",
	} {
		if got := inventory.Type(name); got != want {
			t.Errorf("%q is called %q, want %q", name, got, want)
		}
	}
}

// Slurm's AutoDetect takes a Type for right when it stands in the device's name, in lower case and with underscores for
// blanks.
func TestATypeStandsInTheNameThatSlurmDetects(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(
			`(NVIDIA |Tesla |GeForce )?(RTX |GTX )?[A-Z]{0,2}[0-9]{2,4}[A-Z]?(-SXM[0-9]| PCIe)?(-[0-9]{2}GB)?`).Draw(t,
			"name")
		detected := strings.ReplaceAll(strings.ToLower(name), " ", "_")
		if got := inventory.Type(name); got != "gpu" && !strings.Contains(detected, got) {
			t.Fatalf("%q is called %q, which is not in %q", name, got, detected)
		}
	})
}

func TestTwoModelsOfOneNodeAreCalledDifferently(t *testing.T) {
	gpus := []inventory.GPU{{Name: "NVIDIA A100-SXM4-40GB"}, {Name: "NVIDIA A100-SXM4-80GB"}, {Name: "NVIDIA H100 NVL"},
		{Name: "NVIDIA H100 NVL"}}
	inventory.Classify(gpus)
	for i, want := range []string{"nvidia_a100-sxm4-40gb", "nvidia_a100-sxm4-80gb", "h100", "h100"} {
		if gpus[i].Type != want {
			t.Errorf("%s is called %s, want %s", gpus[i].Name, gpus[i].Type, want)
		}
	}
}

func FuzzType(f *testing.F) {
	for _, seed := range []string{"NVIDIA A100-SXM4-40GB", "NVIDIA GeForce RTX 3090 Ti", "3090", "", "\x00", "K M",
		"Quadro RTX 8000"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		typ := inventory.Type(name)
		counts, err := gres.ParseCounts("gpu:" + typ)
		if err != nil || len(counts) != 1 || counts[0].Type != typ || counts[0].Count != 1 {
			t.Fatalf("%q is called %q, which Slurm reads as %v, %v", name, typ, counts, err)
		}
	})
}
