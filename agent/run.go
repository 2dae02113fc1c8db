package agent

import "context"

func (e *edit) restartRun(ctx context.Context, iteration int) error { return nil }
