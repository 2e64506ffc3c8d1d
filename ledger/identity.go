package ledger

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// identityKey is in the meta bucket; files of earlier daemons do not have it.
var identityKey = []byte("identity")

// Identity names the daemon that this file belongs to: the same at every opening, and no other file's. It is drawn when
// it is first asked for. Since the file belongs to one process at a time, whoever had the name before is dead.
func (b *Book) Identity() (string, error) {
	var identity string
	err := b.db.Update(func(tx *bolt.Tx) error {
		meta := tx.Bucket(metaBucket)
		if identity = string(meta.Get(identityKey)); identity != "" {
			return nil
		}
		drawn := make([]byte, 6)
		rand.Read(drawn) // never fails
		identity = hex.EncodeToString(drawn)
		return meta.Put(identityKey, []byte(identity))
	})
	if err != nil {
		return "", fmt.Errorf("identity in the ledger: %w", err)
	}
	return identity, nil
}
