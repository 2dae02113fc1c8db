package backup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sagestore/sagestore/internal/conflict"
	"github.com/sagestore/sagestore/tiers"
)

const byIDHint = "name one by its id, such as %s; `sagestore backup list` shows whose each is, and in place another store's needs --adopt"

// Choice says whose newest backup [Repo.Choose] answers.
type Choice struct {
	// Until is the time that it may not be younger than; zero: any.
	Until time.Time
	// Known tells that there is a store, which has the id Store; "" is the id of one
	// that was never backed up. Else it has to be plain which store is meant: the
	// backups that count are of one alone.
	Known bool
	Store string
	// Format is what the database of a backup has to be in to fit the store; "": any.
	Format string
}

// Choose answers the newest verified backup of one store, so that the backup of another
// one in the same place is never taken without a word: tiers.ErrNotFound where the store
// has none, with whose are there, tiers.ErrUnsupported where all of them are of another
// engine, and tiers.ErrConflict where it can't be told which store is meant.
func (r *Repo) Choose(ctx context.Context, c Choice) (Entry, error) {
	all, err := r.entries(ctx)
	if err != nil {
		return Entry{}, fail("find backup", "", err)
	}
	e, err := c.among(all)
	return e, fail("find backup", "", err)
}

func (c *Choice) among(all []Entry) (Entry, error) {
	good := slices.DeleteFunc(slices.Clone(all), func(e Entry) bool { return !e.counts() || e.after(c.Until) || !c.fits(&e) })
	if stores := storesOf(good); !c.Known && len(stores) > 1 {
		return Entry{}, tiers.Hint(conflict.Errorf("there is no store here that would tell whose backup is meant, and there are %s", inWords(good)), fmt.Sprintf(byIDHint, good[0].ID))
	}
	for _, e := range good {
		if c.owns(&e) {
			return e, nil
		}
	}
	own := slices.DeleteFunc(slices.Clone(all), func(e Entry) bool { return e.told() && !c.owns(&e) })
	fit := slices.DeleteFunc(slices.Clone(own), func(e Entry) bool { return e.told() && !c.fits(&e) })
	switch {
	case len(own) == 0 && len(all) > 0:
		whose := "this store, which never had one"
		if c.Store != "" {
			whose = "this store, which is " + c.Store
		}
		return Entry{}, tiers.Hint(fmt.Errorf("%w: there is no backup of %s, and there are %s", tiers.ErrNotFound, whose, inWords(all)), fmt.Sprintf(byIDHint, all[0].ID))
	case len(fit) == 0 && len(own) > 0:
		return Entry{}, tiers.Hint(fmt.Errorf("%w: there is no backup in the format %s, which the database of this store has, and %d in another, the newest is %s",
			tiers.ErrUnsupported, c.Format, len(own), own[0].ID), "restore that one by its id, with the configuration that it was made with, then `sagestore migrate --from CONFIG --to CONFIG`")
	}
	return Entry{}, noneOf(fit, c.Until)
}

// told tells that the manifest could be read, so that it is known whose the backup is.
func (e *Entry) told() bool { return len(e.Manifest.Parts) > 0 }

func (c *Choice) owns(e *Entry) bool { return !c.Known || c.Store != "" && e.Manifest.Store == c.Store }

func (c *Choice) fits(e *Entry) bool {
	return c.Format == "" || !slices.ContainsFunc(e.Manifest.Parts, func(p PartInfo) bool { return p.Name == "database" && p.Format != c.Format })
}

// storesOf answers whose the backups are, each once.
func storesOf(all []Entry) (stores []string) {
	for _, e := range all {
		if e.told() && !slices.Contains(stores, e.Manifest.Store) {
			stores = append(stores, e.Manifest.Store)
		}
	}
	return stores
}

// inWords says whose the backups are, the stores of the newest ones first.
func inWords(all []Entry) string {
	const most = 5
	var texts []string
	stores := storesOf(all)
	for _, store := range stores[:min(most, len(stores))] {
		n, newest := 0, ""
		for _, e := range all {
			if e.told() && e.Manifest.Store == store {
				if n++; n == 1 {
					newest = e.ID
				}
			}
		}
		name := store
		if name == "" {
			name = "a store without an id"
		}
		texts = append(texts, fmt.Sprintf("%d of %s, the newest is %s", n, name, newest))
	}
	if more := len(stores) - most; more > 0 {
		texts = append(texts, fmt.Sprintf("those of %d more", more))
	}
	return strings.Join(texts, "; ")
}
