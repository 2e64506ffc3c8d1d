package bridge

import "testing"

func TestATextIsReadAnewWhenAnythingItRestsOnHasChanged(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Job)
		seen   func(*text) bool
	}{
		{"its comment", func(j *Job) { j.Comment = "synergy-profile=b.json" }, func(t *text) bool { return t.word.Profile == "b.json" }},
		{"its comment, which lost our word", func(j *Job) { j.Comment = "mine" }, func(t *text) bool { return !t.managed && t.word == Word{} }},
		{"its comment, which became wrong", func(j *Job) { j.Comment = "synergy-profile=../b.json" }, func(t *text) bool { return t.wrong != nil }},
		{"its stamp", func(j *Job) { j.Extra = `{"v":1,"job":7,"gpu_s":9}` }, func(t *text) bool { return t.stamp.Attained == 9 }},
		{"its GPUs", func(j *Job) { j.Request.GPUs++ }, func(t *text) bool { return t.stamp.Own == nil }},
	} {
		j := Job{ID: 7, Comment: "synergy-profile=a.json", Request: plainRequest()}
		j.Extra = stampOf(&Record{Job: 7, Own: plainRequest()}, 1, "", "").String()
		m := texts{}
		if first := m.of(&j); first.word.Profile != "a.json" || first.stamp.Own == nil {
			t.Fatalf("read %+v", first)
		}
		c.change(&j)
		if got := m.of(&j); !c.seen(got) {
			t.Errorf("%s changed, and still it reads %+v", c.name, got)
		}
	}
}

func TestTextsOfJobsThatAreGoneDoNotPileUp(t *testing.T) {
	m := texts{}
	for id := range 10 * spare {
		j := Job{ID: id + 1, Comment: "synergy-profile=a.json"}
		m = m.keepFor([]*Job{&j})
		m.of(&j)
	}
	if len(m) > spare+3 {
		t.Errorf("%d texts are kept for one job", len(m))
	}
	if last := (10 * spare); m[last] == nil {
		t.Errorf("the text of job %d, which is there, was forgotten", last)
	}
}
