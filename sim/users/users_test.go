package users

import "testing"

func TestThePartThatOptsInAndThePartThatSavesAreAsLargeAsSaid(t *testing.T) {
	const jobs = 20_000
	for _, part := range []float64{0, 0.1, 0.5, 0.9, 1} {
		h := Habits{Outside: 1 - part, Unsaved: 1 - part, Limited: 1 - part, Seed: 42}
		opting, saving, both, declaring := 0, 0, 0, 0
		for job := range jobs {
			in, saves := h.OptsIn(job), h.Saves(job)
			if in {
				opting++
			}
			if saves {
				saving++
			}
			if h.Declares(job) {
				declaring++
			}
			if in && saves {
				both++
			}
		}
		for what, is := range map[string][2]float64{
			"opt in": {float64(opting), part}, "save": {float64(saving), part},
			"declare": {float64(declaring), part}, "do both": {float64(both), part * part},
		} {
			if got := is[0] / jobs; got < is[1]-0.015 || got > is[1]+0.015 {
				t.Errorf("%.3f of the jobs %s, want %.3f", got, what, is[1])
			}
		}
	}
}

func TestAJobThatOptsInDoesSoAtAnyLargerPart(t *testing.T) {
	for job := range 1000 {
		if (Habits{Outside: 0.6, Seed: 1}).OptsIn(job) && !(Habits{Outside: 0.5, Seed: 1}).OptsIn(job) {
			t.Fatalf("job %d opts in where 40 %% do, and not where 50 %% do", job)
		}
	}
}

func TestAnotherSeedDrawsOtherJobs(t *testing.T) {
	same := 0
	for job := range 1000 {
		if (Habits{Outside: 0.5, Seed: 1}).OptsIn(job) == (Habits{Outside: 0.5, Seed: 2}).OptsIn(job) {
			same++
		}
	}
	if same < 430 || same > 570 {
		t.Errorf("%d of 1000 jobs are the same, want about half", same)
	}
}
