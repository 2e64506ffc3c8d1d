package ledger_test

import (
	"compress/gzip"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
)

// ofRelease is the path of a ledger that the daemon of a release wrote: round 41 settled jobs 3, 5 and 8, and round 42
// died.
func ofRelease(t *testing.T, release string) string {
	t.Helper()
	packed, err := os.Open(filepath.Join("testdata", release+".ledger.gz"))
	must(t, err)
	defer packed.Close()
	reader, err := gzip.NewReader(packed)
	must(t, err)
	content, err := io.ReadAll(reader)
	must(t, err)
	path := filepath.Join(t.TempDir(), "ledger")
	must(t, os.WriteFile(path, content, 0o600))
	return path
}

func TestTheLedgerOfEachReleaseIsReadWholeAndIsOfThisOneFromThenOn(t *testing.T) {
	for _, release := range []string{"v0.1.0", "v0.2.0", "v0.3.0"} {
		path := ofRelease(t, release)
		book, err := ledger.Open(path, ledger.Options{})
		if err != nil {
			t.Errorf("%s: %v", release, err)
			continue
		}
		records, intent, err := book.Load()
		must(t, err)
		if want := recordsOf(3, 5, 8); !reflect.DeepEqual(records, want) {
			t.Errorf("%s: read %+v, want %+v", release, records, want)
		}
		if intent == nil || intent.Round != 42 || book.LastRound() != 41 {
			t.Errorf("%s: intent %+v after round %d", release, intent, book.LastRound())
		}
		if report, err := book.Report(41); err != nil || len(report.Plan.Decisions) != 1 {
			t.Errorf("%s: report %+v, %v", release, report, err)
		}
		must(t, book.Close())
		inside(t, path, func(tx *bolt.Tx) error {
			if now := binary.BigEndian.Uint64(tx.Bucket([]byte("meta")).Get([]byte("format"))); now != 4 {
				t.Errorf("%s: it says format %d", release, now)
			}
			return nil
		})
	}
}

// TestFieldsOfRecordsAndIntentsAreThoseOfTheFormat: a daemon of the same format takes a field that it does not know for
// damage, and forgets all service.
func TestFieldsOfRecordsAndIntentsAreThoseOfTheFormat(t *testing.T) {
	var found []string
	fieldsOf(reflect.TypeFor[bridge.Record](), "record", &found)
	fieldsOf(reflect.TypeFor[bridge.Intent](), "intent", &found)
	listed, err := os.ReadFile(filepath.Join("testdata", "format-4.fields"))
	must(t, err)
	if want := strings.Fields(string(listed)); !slices.Equal(found, want) {
		t.Errorf("the fields are\n%s\nand those of format 4 are others. If a release has it, give what is written now "+
			"another number; list these in testdata", strings.Join(found, "\n"))
	}
}

// fieldsOf lists what JSON has of a type, each field with the way to it.
func fieldsOf(of reflect.Type, way string, found *[]string) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || of == reflect.TypeFor[time.Time]() {
		*found = append(*found, way)
		return
	}
	for field := range of.NumField() {
		f := of.Field(field)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		if f.Anonymous && name == "" { // its fields stand among the others
			fieldsOf(f.Type, way, found)
			continue
		}
		if name == "" {
			name = f.Name
		}
		fieldsOf(f.Type, way+"."+name, found)
	}
}
