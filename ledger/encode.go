package ledger

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
)

// errTrailing says that data follows the one value of a key.
var errTrailing = errors.New("more than one value")

// decode reads exactly one value and refuses unknown fields, because a field that is ignored here would be lost at the
// next Settle.
func decode[T bridge.Record | bridge.Intent](raw []byte) (T, error) {
	var value T
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&value); err != nil {
		return value, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return value, errTrailing
	}
	return value, nil
}

func encodeRecord(record *bridge.Record) ([]byte, error) {
	raw, err := json.Marshal(record)
	if err != nil {
		return nil, fmt.Errorf("encode record of job %d: %w", record.Job, err)
	}
	return raw, nil
}

// decodeRecord decodes a record, whose job ID must be its key.
func decodeRecord(key, raw []byte) (bridge.Record, error) {
	record, err := decode[bridge.Record](raw)
	if err != nil {
		return bridge.Record{}, fmt.Errorf("decode record %x: %w", key, err)
	}
	if record.Job <= 0 || !bytes.Equal(key, number(record.Job)) {
		return bridge.Record{}, fmt.Errorf("decode record %x: it says job %d", key, record.Job)
	}
	return record, nil
}

// pack compresses a report: the snapshot of a large cluster is a megabyte of repetitive JSON.
func pack(report bridge.Report) ([]byte, error) {
	raw, err := json.Marshal(report)
	if err != nil {
		return nil, fmt.Errorf("pack report: %w", err)
	}
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write(raw); err != nil {
		return nil, fmt.Errorf("pack report: %w", err)
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("pack report: %w", err)
	}
	return packed.Bytes(), nil
}

// unpack is the inverse of pack. It ignores unknown fields: reports are only read, and a report of another version must
// not make the records unusable.
func unpack(packed []byte) (bridge.Report, error) {
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return bridge.Report{}, fmt.Errorf("unpack report: %w", err)
	}
	raw, err := io.ReadAll(reader)
	if err != nil {
		return bridge.Report{}, fmt.Errorf("unpack report: %w", err)
	}
	var report bridge.Report
	if err := json.Unmarshal(raw, &report); err != nil {
		return bridge.Report{}, fmt.Errorf("unpack report: %w", err)
	}
	return report, nil
}
