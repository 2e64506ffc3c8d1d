package wire_test

import (
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/synergy-slurmd/synergy-slurmd/share/wire"
)

func TestWhatIsWrittenIsRead(t *testing.T) {
	zero := 0
	for _, m := range []wire.Message{
		{Type: wire.Hello, PID: 12, Kind: "train", Step: 20_000, Memory: 512},
		{Type: wire.Welcome, ID: 3, GPU: &zero, Class: "high", Memory: 1024, Quantum: 200_000},
		{Type: wire.Ask, Seq: 1, Estimate: 20_000, Deadline: 50_000},
		{Type: wire.Grant, Seq: 1, Lease: 40_000},
		{Type: wire.Yield, Seq: 1, Grace: 100_000},
		{Type: wire.Release, Seq: 1, Used: 19_000},
		{Type: wire.Bye},
		{Type: wire.Error, Code: wire.Busy, Text: "a request is open"},
	} {
		line, err := wire.Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		got, err := wire.Decode(line)
		m.V = wire.Version
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%s reads as %+v, %v, want %+v", line, got, err, m)
		}
	}
}

func TestAFieldThatALaterVersionAddsIsNoReasonToRefuse(t *testing.T) {
	m, err := wire.Decode([]byte(`{"v":1,"type":"ACQ","seq":7,"colour":{"red":[1]}}`))
	if err != nil || m.Seq != 7 {
		t.Errorf("got %+v, %v", m, err)
	}
}

func TestALineThatIsNoMessageIsRefusedWithItsCode(t *testing.T) {
	for line, want := range map[string]string{
		``:                                    wire.BadMessage,
		`null`:                                wire.BadVersion,
		`[]`:                                  wire.BadMessage,
		`{"v":1,"type":"HELLO"`:               wire.BadMessage,
		`{"type":"HELLO"}`:                    wire.BadVersion,
		`{"v":2,"type":"HELLO"}`:              wire.BadVersion,
		`{"v":1}`:                             wire.BadMessage,
		`{"v":1,"type":"KILL"}`:               wire.BadMessage,
		`{"v":1,"type":"HELLO"}x`:             wire.BadMessage,
		`{"v":1,"type":"HELLO","mem_mib":-1}`: wire.BadMessage,
		`{"v":1,"type":"HELLO","mem_mib":9223372036854775807}`: wire.BadMessage,
		`{"v":1,"type":"ACQ","seq":-1}`:                        wire.BadMessage,
		`{"v":1,"type":"ACQ","est_us":-1}`:                     wire.BadMessage,
		`{"v":1,"type":"REL","used_us":9223372036854775807}`:   wire.BadMessage,
		`{"v":1,"type":"ACQ","deadline_us":3600000001}`:        wire.BadMessage,
		`{"v":1,"type":"ACQ","est_us":1e99}`:                   wire.BadMessage,
		`{"v":1,"type":"` + strings.Repeat("A", wire.MaxLine):  wire.BadMessage,
		`{"v":1,"type":"BYE"}` + strings.Repeat(" ", 4*1<<20):  wire.BadMessage,
	} {
		_, err := wire.Decode([]byte(line))
		bad, is := errors.AsType[*wire.Bad](err)
		if !is || bad.Code != want || len(bad.Text) > 300 {
			t.Errorf("%.60q: %v, want code %s", line, err, want)
		}
	}
}

func TestAMessageTooLongForALineIsNotWritten(t *testing.T) {
	if _, err := wire.Encode(wire.Message{Type: wire.Error, Text: strings.Repeat("a", wire.MaxLine)}); err == nil {
		t.Error("it was written")
	}
}

func TestAReaderKeepsNoMoreThanALine(t *testing.T) {
	endless := io.MultiReader(strings.NewReader(`{"v":1,"type":"BYE"}`+"\n"+`{"v":1,"type":"`), forever{})
	r := wire.NewReader(endless)
	if m, err := r.Next(); err != nil || m.Type != wire.Bye {
		t.Fatalf("got %+v, %v", m, err)
	}
	if _, err := r.Next(); err == nil || !strings.Contains(err.Error(), "more than 4096 bytes") {
		t.Errorf("got %v", err)
	}
}

func TestALineThatBreaksOffIsTheEnd(t *testing.T) {
	r := wire.NewReader(iotest.OneByteReader(strings.NewReader("{\"v\":1,\"type\":\"BYE\"}\n{\"v\":1")))
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want the end", err)
	}
}

type forever struct{}

func (forever) Read(into []byte) (int, error) {
	for i := range into {
		into[i] = 'x'
	}
	return len(into), nil
}

// FuzzDecode: whatever a client writes, what is read of it is within its bounds, and can be written again.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"v":1,"type":"HELLO","pid":12,"kind":"train","step_us":20000,"mem_mib":512}`))
	f.Add([]byte(`{"v":1,"type":"WELCOME","id":3,"gpu":0,"class":"high","mem_mib":1024,"quantum_us":200000}`))
	f.Add([]byte(`{"v":1,"type":"ACQ","seq":1,"est_us":20000,"deadline_us":50000}`))
	f.Add([]byte(`{"v":1,"type":"ERR","code":"busy","msg":"\u2028<"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := wire.Decode(line)
		if err != nil {
			if _, is := errors.AsType[*wire.Bad](err); !is {
				t.Fatalf("an error without a code: %v", err)
			}
			return
		}
		if m.Memory < 0 || m.Estimate < 0 || m.Used < 0 || m.Deadline < 0 || m.V != wire.Version {
			t.Fatalf("believed %+v", m)
		}
		again, err := wire.Encode(m)
		if err != nil {
			return // text may grow by its escapes
		}
		back, err := wire.Decode(again)
		if err != nil || !reflect.DeepEqual(back, m) {
			t.Fatalf("%+v came back as %+v, %v", m, back, err)
		}
	})
}
