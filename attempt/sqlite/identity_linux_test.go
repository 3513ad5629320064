package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"testing"
)

// Where statx is forbidden, stat tells the same.
func TestIdentifyByStat(t *testing.T) {
	path := testFile(t)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a, errA := identify(path)
	b, errB := identifyByStat(path)
	if errA != nil || errB != nil || a != b || a.inode == 0 {
		t.Errorf("%+v, %v and %+v, %v", a, errA, b, errB)
	}
	for _, identify := range []func(string) (identity, error){identify, identifyByStat} {
		if _, err := identify(path + "-wal"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a file that is not there: %v", err)
		}
	}
}
