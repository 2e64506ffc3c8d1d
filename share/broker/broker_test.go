package broker_test

import (
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/share/wire"
)

func TestAFreeGPUIsGrantedAtOnceAndToOneAtATime(t *testing.T) {
	b := serve(t, ofJob(7))
	stamp(t, b.dir, 7, 0, share.Low, 1024)
	first, second := join(t, b.dir, 0), join(t, b.dir, 0)
	first.ask()
	if m := first.want(wire.Grant); m.Seq != 1 || m.Lease <= 0 {
		t.Errorf("granted by %+v", m)
	}
	second.ask()
	second.quiet()
	first.release()
	second.want(wire.Grant)
}

func TestWhatAClientSaysOfItselfGivesItNothing(t *testing.T) {
	b := serve(t, ofJob(7))
	stamp(t, b.dir, 7, 0, share.Low, 1024)
	c := dial(t, b.dir, 0)
	if _, err := c.conn.Write([]byte(`{"v":1,"type":"HELLO","pid":1,"class":"high","prio":9,"job":8,"uid":0,` +
		`"mem_mib":512,"id":99,"gpu":1}` + "\n")); err != nil {
		t.Fatal(err)
	}
	m := c.want(wire.Welcome)
	if m.Class != "low" || m.Memory != 1024 || *m.GPU != 0 || m.ID == 99 {
		t.Errorf("welcome is %+v", m)
	}
	client := b.Status().GPUs[0].Clients[0]
	if client.Job != 7 || client.Class != "low" || client.PID == 1 {
		t.Errorf("known as %+v", client)
	}
}

func TestASecondRequestIsRefusedAndTheFirstStands(t *testing.T) {
	b := serve(t, ofJob(7))
	stamp(t, b.dir, 7, 0, share.Low, 1024)
	holder, c := join(t, b.dir, 0), join(t, b.dir, 0)
	holder.ask()
	holder.want(wire.Grant)
	c.ask()
	c.send(wire.Message{Type: wire.Ask, Seq: 2})
	if m := c.want(wire.Error); m.Code != wire.Busy || m.Seq != 2 {
		t.Errorf("answered by %+v", m)
	}
	holder.release()
	if m := c.want(wire.Grant); m.Seq != 1 {
		t.Errorf("granted by %+v", m)
	}
}

func TestARequestThatIsTakenBackIsInNobodysWay(t *testing.T) {
	b := serve(t, ofJob(7))
	stamp(t, b.dir, 7, 0, share.Low, 1024)
	holder, fickle, last := join(t, b.dir, 0), join(t, b.dir, 0), join(t, b.dir, 0)
	holder.ask()
	holder.want(wire.Grant)
	fickle.ask()
	fickle.release()
	await(t, "a request", func() bool { return b.Status().GPUs[0].Clients[1].State == wire.Waiting })
	fickle.quiet() // and what it took back is heard
	last.ask()
	await(t, "another", func() bool { return b.Status().GPUs[0].Clients[2].State == wire.Waiting })
	holder.release()
	last.want(wire.Grant)
	fickle.quiet()
	fickle.ask()
	fickle.quiet()
	last.release()
	fickle.want(wire.Grant)
}

func TestARequestThatIsTakenBackAndMadeAgainIsGrantedOnceByItsNewNumber(t *testing.T) {
	b := serve(t, ofJob(7))
	stamp(t, b.dir, 7, 0, share.Low, 1024)
	holder, fickle := join(t, b.dir, 0), join(t, b.dir, 0)
	holder.ask()
	holder.want(wire.Grant)
	fickle.ask()
	fickle.release()
	fickle.ask()
	fickle.send(wire.Message{Type: wire.Ask, Seq: 3}) // is refused, and by then the others were heard
	fickle.want(wire.Error)
	holder.release()
	if m := fickle.want(wire.Grant); m.Seq != 2 {
		t.Errorf("granted by %+v", m)
	}
	fickle.release()
	fickle.quiet()
}

func TestTheImportantJobIsServedFirst(t *testing.T) {
	jobs := make(chan int, 1)
	b := serve(t, identifyBy(jobs))
	stamp(t, b.dir, 1, 0, share.High, 1024)
	stamp(t, b.dir, 2, 0, share.Low, 1024)
	jobs <- 2
	holder := join(t, b.dir, 0)
	jobs <- 2
	low := join(t, b.dir, 0)
	jobs <- 1
	high := join(t, b.dir, 0)
	holder.ask()
	holder.want(wire.Grant)
	low.ask()
	await(t, "a request", func() bool { return b.Status().GPUs[0].Clients[1].State == wire.Waiting })
	high.ask()
	if m := holder.want(wire.Yield); m.Grace <= 0 {
		t.Errorf("told to yield by %+v", m)
	}
	holder.release()
	high.want(wire.Grant)
	low.quiet()
	high.conn.Close()
	low.want(wire.Grant)
}

func TestTheJobsOfAGPUAreInNoWayOfThoseOfAnother(t *testing.T) {
	jobs := make(chan int, 1)
	b := serve(t, identifyBy(jobs))
	stamp(t, b.dir, 1, 0, share.High, 1024)
	stamp(t, b.dir, 2, 1, share.Low, 1024)
	jobs <- 1
	here := join(t, b.dir, 0)
	jobs <- 2
	there := join(t, b.dir, 1)
	here.ask()
	here.want(wire.Grant)
	there.ask()
	there.want(wire.Grant)
}

func TestWhatIsNoMessageEndsTheConnectionWithASentence(t *testing.T) {
	b := serve(t, ofJob(7))
	stamp(t, b.dir, 7, 0, share.Low, 1024)
	for _, c := range []struct{ line, code string }{
		{"GET / HTTP/1.1\r\n", wire.BadMessage},
		{`{"v":2,"type":"HELLO"}`, wire.BadVersion},
		{`{"v":1,"type":"ACQ","seq":1}`, wire.BadMessage}, // before HELLO
		{`{"v":1,"type":"HELLO","mem_mib":-5}`, wire.BadMessage},
		{`{"v":1,"type":"HELLO"}` + "\n" + `{"v":1,"type":"GRANT","seq":1}`, wire.BadMessage},
		{`{"v":1,"type":"HELLO"}` + "\n" + `{"v":1,"type":"HELLO"}`, wire.BadMessage},
		{`{"v":1,"type":"HELLO"}` + "\n" + `{"v":1,"type":"STEAL"}`, wire.BadMessage},
	} {
		conn := dial(t, b.dir, 0)
		if _, err := conn.conn.Write([]byte(c.line + "\n")); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(c.line, "\n{") {
			conn.want(wire.Welcome)
		}
		conn.refused(c.code)
	}
	await(t, "nobody", func() bool { return len(b.Status().GPUs[0].Clients) == 0 })
	if refused := b.Status().Refused; refused[wire.BadMessage] != 6 || refused[wire.BadVersion] != 1 {
		t.Errorf("counted %v", refused)
	}
}

func TestAMessageOfFourMegabytesIsRefusedAfterItsFirstLine(t *testing.T) {
	b := serve(t, ofJob(7))
	stamp(t, b.dir, 7, 0, share.Low, 1024)
	c := dial(t, b.dir, 0)
	_, err := c.conn.Write([]byte(`{"v":1,"type":"HELLO","kind":"` + strings.Repeat("a", 4<<20)))
	if err == nil {
		t.Error("all of it was taken")
	}
	if m := c.refused(wire.BadMessage); !strings.Contains(m.Text, "4096 bytes") {
		t.Errorf("refused by %+v", m)
	}
}

func TestWhoSaysNothingIsLetGo(t *testing.T) {
	b := serve(t, func(c *settings) {
		ofJob(7)(c)
		c.Limits.Clients, c.Limits.PerUser, c.Limits.PerJob, c.Limits.Hello = 10, 10, 10, 20*time.Millisecond
	})
	c := dial(t, b.dir, 0)
	c.ended()
}

func TestAJobUsesNoMoreMemoryThanItWasGiven(t *testing.T) {
	b := serve(t, ofJob(7))
	stamp(t, b.dir, 7, 0, share.Low, 1000)
	first := dial(t, b.dir, 0)
	first.send(wire.Message{Type: wire.Hello, Memory: 600})
	first.want(wire.Welcome)
	second := dial(t, b.dir, 0)
	second.send(wire.Message{Type: wire.Hello, Memory: 401})
	if m := second.refused(wire.MemoryCap); m.Text != "job 7 may use 1000 MiB of GPU 0 and uses 600: no room for 401" {
		t.Errorf("refused by %q", m.Text)
	}
	first.conn.Close()
	await(t, "room", func() bool { return len(b.Status().GPUs[0].Clients) == 0 })
	third := dial(t, b.dir, 0)
	third.send(wire.Message{Type: wire.Hello, Memory: 401})
	third.want(wire.Welcome)
	if s := b.Status().GPUs[0]; s.MemoryBooked != 1000 || s.Clients[0].Memory != 401 {
		t.Errorf("booked %+v", s)
	}
}

func TestWhoNeverReadsIsDroppedAndNobodyWaitsForHim(t *testing.T) {
	b := serve(t, ofJob(7))
	stamp(t, b.dir, 7, 0, share.Low, 1024)
	deaf, other := join(t, b.dir, 0), join(t, b.dir, 0)
	deaf.ask()
	line, err := wire.Encode(wire.Message{Type: wire.Ask, Seq: 2})
	if err != nil {
		t.Fatal(err)
	}
	for range 100_000 {
		if _, err = deaf.conn.Write(line); err != nil {
			break
		}
	}
	if err == nil {
		t.Fatal("a hundred thousand answers were kept for one who reads none")
	}
	other.ask()
	other.want(wire.Grant)
}
