package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/chargeonce/chargeonce/fakeprovider"
)

func (a *app) fakeCommand() *cobra.Command {
	var c fakeprovider.ServerConfig
	var mode string
	cmd := &cobra.Command{
		Use:   "fake",
		Short: "Run a fake payment provider that misbehaves on request",
		Long: `Run a fake payment provider that misbehaves on request. It prints its address when it
listens, and ends on SIGINT or SIGTERM.

  chargeonce fake --listen 127.0.0.1:8089
  CHARGEONCE_STANDARD_TOKEN=any chargeonce pay FILE --provider standard --url http://127.0.0.1:8089

GET /_fake/ledger shows what was really charged.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.Mode = fakeprovider.Mode(mode)
			if err := c.Validate(); err != nil {
				return usage(err)
			}
			signals := catchInterrupts(cmd.Context(), func(int) {})
			defer signals.release()
			c.Ready = func(address string) {
				_, err := fmt.Fprintf(a.out, "http://%s\n", address)
				if err != nil {
					a.tell("the address %s could not be printed: %v", address, err)
				}
			}
			err := fakeprovider.ListenAndServe(signals.start, c)
			if errors.Is(err, fakeprovider.ErrInUse) {
				return fatal(fmt.Errorf("%w: end it, or use another --file", err))
			}
			return fatal(err)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&c.Listen, "listen", "127.0.0.1:8089", "the address, on the loopback; port 0 picks a free one")
	flags.StringVar(&mode, "mode", "normal", "how payments are treated: normal, slow, drop, error, decline")
	flags.DurationVar(&c.Delay, "delay", 0, "how long answers take (with --mode slow: 5s)")
	flags.Float64Var(&c.FaultRate, "fault-rate", 0, "the share of requests that meet a fault, 0 to 1")
	flags.Uint64Var(&c.Seed, "seed", 0, "makes the faults repeatable")
	flags.StringVar(&c.File, "file", "", "keep the ledger in a file, over restarts")
	modes := []string{"normal", "slow", "drop", "error", "decline"}
	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions(modes, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}
