package bridge

import (
	"slices"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

func TestWhatSlurmPrintsOfGPUsSaysWhichTheyAre(t *testing.T) {
	for printed, want := range map[string][]givenDevice{
		"gpu:g0:1(IDX:0),gpu:g1:0(IDX:),gpu:g2:1(IDX:2)": {{gpuType: "g0"}, {gpuType: "g2"}},
		"gpu:2(IDX:0,3)":                    {{index: 0}, {index: 3}},
		"gpu:(null):3(IDX:0-2)":             {{index: 0}, {index: 1}, {index: 2}},
		"shard:1(0/4,1/4)":                  {{index: 1}},
		"shard:3(-/4,2/4,1/4)":              {{index: 1}, {index: 2}},
		"gpu:g0:1(IDX:0),shard:2(0/4,2/4)":  {{gpuType: "g0"}, {index: 1}},
		"mps:50(0/100,50/100)":              {{index: 1}},
		"gpu:2":                             nil, // not told
		"license:1(IDX:0)":                  nil,
		"gpu:1(IDX:7-99999999999999999999)": {{index: 7}},
		"gpu:(":                             nil,
		"":                                  nil,
	} {
		if got := devicesIn(slurm.Allocated{Devices: []string{printed}}); !slices.Equal(got, want) {
			t.Errorf("%q: %+v, want %+v", printed, got, want)
		}
	}
	if got := devicesIn(slurm.Allocated{Shard: "g3"}); !slices.Equal(got, []givenDevice{{gpuType: "g3"}}) {
		t.Errorf("a job in teardown, of which only its shard is known: %+v", got)
	}
}

// FuzzDevicesIn: whatever Slurm prints, what is made of it is bounded and names no GPU below the first.
func FuzzDevicesIn(f *testing.F) {
	for _, seed := range []string{"gpu:g0:1(IDX:0),shard:2(0/4,2/4)", "gpu:2(IDX:0-1,9-)", "shard:1((1/4,-/4)"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, printed string) {
		given := devicesIn(slurm.Allocated{Devices: []string{printed}})
		if len(given) > (mostGPUs+1)*(len(printed)+1) {
			t.Errorf("%d GPUs of %d bytes", len(given), len(printed))
		}
		for _, d := range given {
			if d.index < 0 {
				t.Errorf("%q: %+v", printed, d)
			}
		}
	})
}
