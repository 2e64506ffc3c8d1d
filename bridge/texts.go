package bridge

// text is what the comment and the extra field of one job said when they were last read.
type text struct {
	comment string
	managed bool
	word    Word
	wrong   error // with the word
	extra   string
	gpus    int // a stamp of a job with another number is not believed
	stamp   stamp
}

// texts remembers by job what was read, so that a round parses only what has changed. Losing it costs time and nothing else.
type texts map[int]*text

// of is the job's text, read anew where it has changed.
func (m texts) of(j *Job) *text {
	t, known := m[j.ID]
	if !known {
		t = &text{}
		m[j.ID] = t
	}
	if !known || t.comment != j.Comment {
		t.comment, t.managed = j.Comment, Managed(j.Comment)
		t.word, t.wrong = ParseComment(j.Comment)
	}
	if !known || t.extra != j.Extra || t.gpus != j.Request.GPUs {
		t.extra, t.gpus, t.stamp = j.Extra, j.Request.GPUs, readStamp(j)
	}
	return t
}

// spare is how many texts of jobs that are gone may be kept, beyond as many as there are jobs.
const spare = 64

// keepFor forgets the texts of jobs that are gone, when there are many.
func (m texts) keepFor(jobs []*Job) texts {
	if m != nil && len(m) <= 2*len(jobs)+spare {
		return m
	}
	kept := make(texts, len(jobs))
	for _, j := range jobs {
		if t, known := m[j.ID]; known {
			kept[j.ID] = t
		}
	}
	return kept
}
