package main

import (
	"context"
	"fmt"
	"iter"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/tiers"
)

// standIns stand in for the codecs and drivers of the app whose store it is, so
// that the categories which need none of them can be used.
func standIns(e *config.Effective, drivers tiers.Drivers) (tiers.Drivers, manager.OpenOption) {
	codecs, names := e.Foreign()
	for _, name := range names {
		drivers = append(drivers, tiers.Driver{Name: name, Open: func(context.Context, tiers.Env) (tiers.Tier, error) {
			return foreignTier(name), nil
		}})
	}
	own := make([]serializer.Codec, len(codecs))
	for i, name := range codecs {
		own[i] = foreignCodec(name)
	}
	return drivers, manager.WithCodec(own...)
}

// foreignCodec is a codec of an app.
type foreignCodec string

func (c foreignCodec) Name() string { return string(c) }

func (c foreignCodec) Append([]byte, any) ([]byte, error) {
	return nil, usagef("add --raw to store bytes as they are", "values of codec %s, which is the app's own, can't be written as JSON", string(c))
}

func (c foreignCodec) Decode([]byte, any) error {
	return usagef("add --raw to get the bytes", "a value of codec %s, which is the app's own, can't be shown as JSON", string(c))
}

// foreignTier is a tier whose driver is an app's.
type foreignTier string

func (t foreignTier) fault() error {
	return tiers.Hint(fmt.Errorf("%w: the driver %s is the app's own, and this command lacks it", tiers.ErrUnsupported, string(t)),
		"use the app for what is in this tier")
}

func (t foreignTier) Describe() tiers.Info {
	return tiers.Info{Driver: string(t), Place: "?", Scope: tiers.ScopeHost}
}

func (t foreignTier) Diagnose(context.Context) []tiers.Finding {
	return []tiers.Finding{{OK: true, Subject: "driver", Message: string(t) + " is the app's own, and this command lacks it", Hint: "ask the app about this tier"}}
}

func (t foreignTier) Load(context.Context, tiers.Key) (tiers.Record, error) {
	return tiers.Record{}, t.fault()
}

func (t foreignTier) Save(context.Context, tiers.Record, tiers.Cond) (tiers.Record, error) {
	return tiers.Record{}, t.fault()
}

func (t foreignTier) Delete(context.Context, tiers.Key, tiers.Cond) (bool, error) {
	return false, t.fault()
}

func (t foreignTier) List(context.Context, tiers.Query) iter.Seq2[tiers.Record, error] {
	return func(yield func(tiers.Record, error) bool) { yield(tiers.Record{}, t.fault()) }
}

func (t foreignTier) Spaces(context.Context) iter.Seq2[tiers.Space, error] {
	return func(yield func(tiers.Space, error) bool) { yield(tiers.Space{}, t.fault()) }
}

func (t foreignTier) Close(context.Context) error { return nil }
