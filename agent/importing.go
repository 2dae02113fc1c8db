package agent

import (
	"context"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// ImportAgent creates an agent that came from elsewhere. It is [Store.Save] of one
// with Revision 0, but for Modified, which stays as it is. tiers.ErrExists: there is
// an agent of that id.
func (s *Store) ImportAgent(ctx context.Context, a *State) error {
	err := s.update(ctx, turn{agent: a.ID}, func(s *Store) error {
		_, found, err := s.agent(ctx, a.ID)
		if err == nil && found {
			err = refuse(tiers.Hint(tiers.ErrExists, "load it, change what was loaded and save that"))
		}
		if err != nil {
			return err
		}
		if _, err := s.createAgent(ctx, a, a.Modified); err != nil {
			return err
		}
		s.tx.OnCommit(func(context.Context) {
			a.Revision = s.state.VersionIn(s.tx, atHead+manager.Key(a.ID))
		})
		return nil
	})
	return fail("import agent", categoryState, a.ID, err)
}
