package config_test

import (
	"fmt"
	"testing"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/tiers"
)

func TestForeignTakesWhatAnAppMayBring(t *testing.T) {
	for _, c := range []struct{ why, yaml, want string }{
		{"a codec", "categories: {a: {codec: protobuf}, b: {codec: protobuf}, c: {codec: json}}", "[protobuf] []"},
		{"a driver, with options that only it knows", "tiers: {archive: {driver: tape, reel: 7}}", "[] [tape]"},
		{"a driver that is there is not foreign", "tiers: {archive: {driver: s3}}", "[] []"},
		{"a misspelt codec is a fault", "categories: {a: {codec: mspack}}", `line 1: categories.a.codec: there is no codec "mspack"; did you mean "msgpack"?`},
		{"a misspelt driver is a fault", "tiers: {archive: {driver: rediss}}", `line 1: tiers.archive.driver: there is no driver "rediss"; did you mean "redis"?`},
		{"what can't be the name of a codec is a fault", "categories: {a: {codec: Proto Buf}}", `line 1: categories.a.codec: there is no codec "Proto Buf"; it may be json, msgpack, gob or raw; a program names its own with config.Codecs and manager.WithCodec`},
	} {
		t.Run(c.why, func(t *testing.T) {
			opts := []config.Option{config.Drivers(drivers()), config.Foreign(), config.DataDir("/d")}
			cfg, err := config.Parse([]byte(c.yaml), opts...)
			got := fmt.Sprint(err)
			if err == nil {
				e, err := cfg.Resolve(opts...)
				if err != nil {
					t.Fatal(err)
				}
				codecs, names := e.Foreign()
				got = fmt.Sprint(codecs, names)
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
	if _, err := config.Parse([]byte("categories: {a: {codec: protobuf}}"), config.Drivers(tiers.Drivers{})); err == nil {
		t.Error("without Foreign a codec that the program lacks is no fault")
	}
}
