package artifact

// place places job i where the request fits, by the placement of the configuration. If it does not fit, nothing changes
// and place returns false; the request is then not tried again until something is freed.
func (e *engine) place(i int32, w *request) bool {
	e.refresh(w)
	if w.fitsNowhere {
		return false
	}
	j, from := &e.jobs[i], len(e.parts)
	fitted := false
	if e.Placement == Consolidate {
		fitted = e.consolidate(w, j.gpus)
	} else {
		fitted = e.firstFit(w, j.gpus)
	}
	if !fitted {
		e.parts = e.parts[:from]
		w.fitsNowhere = true
		return false
	}
	j.from, j.to = from, len(e.parts)
	e.occupy(i, j)
	return true
}

// refresh clears the cache of where the request does not fit, if something was freed since it was filled.
func (e *engine) refresh(w *request) {
	if w.releaseCount != e.releaseCount {
		w.releaseCount, w.first, w.fitsNowhere = e.releaseCount, 0, false
	}
}

// occupy adds the job's parts to what is used of their servers, takes their GPUs from the free ones, and lists the job
// on each of these servers, where tune looks for jobs to downgrade.
func (e *engine) occupy(i int32, j *job) {
	for k := j.from; k < j.to; k++ {
		p := &e.parts[k]
		s := &e.servers[p.server]
		s.add(&e.server, &p.held)
		s.free -= p.gpus
		s.jobs = append(s.jobs, i)
	}
	e.free -= j.gpus
}

// firstFit takes free GPUs in the order of their numbers, each with a slice of the request, wherever a slice fits, and
// returns whether there are enough. The GPUs of a server have consecutive numbers, and once a slice does not fit on a
// server, no other slice does, so servers can be tried one after the other. Those before the first with room are
// skipped for this request until something is freed.
func (e *engine) firstFit(w *request, gpus int) bool {
	first := len(e.servers)
	for s := w.first; s < len(e.servers) && gpus > 0; s++ {
		if n := e.addSlices(s, w, gpus); n > 0 {
			gpus -= n
			first = min(first, s)
		}
	}
	w.first = first
	return gpus == 0
}

// addSlices adds a part with as many slices of the request as fit on the server, but no more than most, and returns how
// many. If none fits, it adds no part and returns 0.
func (e *engine) addSlices(number int, w *request, most int) int {
	s := &e.servers[number]
	if s.free == 0 || !s.left.covers(&w.slice) {
		return 0
	}
	held, n := w.slice, 1
	for most = min(most, s.free); n < most && s.hasRoomFor(&held, &w.slice); n++ {
		for r := range held {
			held[r] += w.slice[r]
		}
	}
	e.parts = append(e.parts, part{number, n, false, held})
	return n
}

// consolidate places a job on one server if possible, the one with the fewest free GPUs, and otherwise slice by slice,
// on servers with few free GPUs first. It returns whether the job fits. A slice takes the last free GPUs of its server,
// as in the artifact; so does a job with one GPU, which the artifact places only in this way.
func (e *engine) consolidate(w *request, gpus int) bool {
	if gpus > 1 {
		if s, found := e.tightestServer(w); found {
			e.parts = append(e.parts, part{s, gpus, false, w.whole})
			return true
		}
	}
	for free := 1; free <= e.gpus && gpus > 0; free++ {
		for s := 0; s < len(e.servers) && gpus > 0; s++ {
			if e.servers[s].free != free {
				continue
			}
			if n := e.addSlices(s, w, gpus); n > 0 {
				e.parts[len(e.parts)-1].last = true
				gpus -= n
			}
		}
	}
	return gpus == 0
}

// tightestServer returns the server with the fewest free GPUs among those on which the whole request fits. found is
// false if it fits on none.
func (e *engine) tightestServer(w *request) (number int, found bool) {
	least := e.gpus + 1
	for s := range e.servers {
		if at := &e.servers[s]; at.free > 0 && at.free < least && at.left.covers(&w.whole) {
			number, least = s, at.free
		}
	}
	return number, least <= e.gpus
}

// hasRoomFor says whether a slice fits in addition to what the job is about to hold, which is not yet subtracted from
// what is left.
func (s *server) hasRoomFor(held, slice *vector) bool {
	for r := range slice {
		if s.left[r]-held[r] < slice[r] {
			return false
		}
	}
	return true
}

// add adds an amount to what is used of a server with this capacity. The network is never counted.
func (s *server) add(capacity, amount *vector) {
	for r := range network {
		s.used[r] += amount[r]
		s.left[r] = capacity[r] - s.used[r]
	}
}

// subtract subtracts an amount from what is used of a server with this capacity. The network is never counted.
func (s *server) subtract(capacity, amount *vector) {
	for r := range network {
		s.used[r] -= amount[r]
		s.left[r] = capacity[r] - s.used[r]
	}
}

// release subtracts what a job held from what is used on its servers. All servers have the same capacity, e.server. The
// count of free GPUs is set anew when the next round begins (clear). If amounts are not exact, this leaves residues, as
// in the artifact.
func (e *engine) release(j *job) {
	for _, p := range e.parts[j.from:j.to] {
		e.servers[p.server].subtract(&e.server, &p.held)
	}
}
