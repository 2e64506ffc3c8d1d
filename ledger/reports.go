package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
)

// ErrNoReport says that no report of that round, or none at all, is stored.
var ErrNoReport = errors.New("no such report")

// reportKeyLength is the length of a report's key: its place in the order of arrival, then its round. Reports are
// sorted by arrival because the newest one must never be the first to be dropped, whatever its round number.
const reportKeyLength = 16

// storeReport stores a report and drops the oldest ones beyond keep.
func (b *Book) storeReport(bucket *bolt.Bucket, round int, packed []byte) error {
	order, err := bucket.NextSequence()
	if err != nil {
		return err
	}
	if err := bucket.Put(append(number(int(order)), number(round)...), packed); err != nil {
		return err
	}
	return dropBefore(bucket, int(order)-b.keep+1)
}

// dropBefore deletes the reports that arrived before the given place. It goes back to the first key after each
// deletion, since bbolt's cursor is not valid after one.
func dropBefore(bucket *bolt.Bucket, place int) error {
	if place <= 0 {
		return nil
	}
	cursor := bucket.Cursor()
	for key, _ := cursor.First(); key != nil && bytes.Compare(key, number(place)) < 0; key, _ = cursor.First() {
		if err := cursor.Delete(); err != nil {
			return err
		}
	}
	return nil
}

// Rounds lists the rounds with a stored report, in the order of arrival.
func (b *Book) Rounds() ([]int, error) {
	var rounds []int
	err := b.db.View(func(tx *bolt.Tx) error {
		return tx.Bucket(reportsBucket).ForEach(func(key, _ []byte) error {
			rounds = append(rounds, roundOf(key))
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list reports: %w", err)
	}
	return rounds, nil
}

// newest returns the round of the last report, or 0.
func (b *Book) newest() int {
	rounds, err := b.Rounds()
	if err != nil || len(rounds) == 0 {
		return 0
	}
	return rounds[len(rounds)-1]
}

func roundOf(key []byte) int { return int(binary.BigEndian.Uint64(key[8:])) }

// Report returns the report of a round; the latest one if a number was used twice. ErrNoReport: it is not stored.
func (b *Book) Report(round int) (bridge.Report, error) {
	report, err := b.latest(func(key []byte) bool { return roundOf(key) == round })
	if err != nil {
		return bridge.Report{}, fmt.Errorf("read report of round %d: %w", round, err)
	}
	return report, nil
}

// Latest returns the report that was settled last. ErrNoReport: no round has settled.
func (b *Book) Latest() (bridge.Report, error) {
	report, err := b.latest(func([]byte) bool { return true })
	if err != nil {
		return bridge.Report{}, fmt.Errorf("read last report: %w", err)
	}
	return report, nil
}

// latest reads the newest report whose key is wanted.
func (b *Book) latest(wanted func(key []byte) bool) (bridge.Report, error) {
	var report bridge.Report
	err := b.db.View(func(tx *bolt.Tx) (err error) {
		cursor := tx.Bucket(reportsBucket).Cursor()
		for key, packed := cursor.Last(); key != nil; key, packed = cursor.Prev() {
			if wanted(key) {
				report, err = unpack(packed)
				return err
			}
		}
		return ErrNoReport
	})
	return report, err
}

// Reports returns all stored reports, the oldest first.
func (b *Book) Reports() ([]bridge.Report, error) {
	var reports []bridge.Report
	err := b.db.View(func(tx *bolt.Tx) error {
		return tx.Bucket(reportsBucket).ForEach(func(_, packed []byte) error {
			report, err := unpack(packed)
			reports = append(reports, report)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read reports: %w", err)
	}
	return reports, nil
}
