package main

import (
	"github.com/spf13/cobra"
)

func (a *app) attemptsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "attempts",
		Short: "See what became of payments",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	return cmd
}

func (a *app) doctorCommand() *cobra.Command { return &cobra.Command{Use: "doctor"} }
