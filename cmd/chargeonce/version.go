package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this build",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.settings(cmd)
			if err != nil {
				return usage(err)
			}
			v := readVersion()
			if s.output == outputTable {
				_, err = fmt.Fprintf(a.out, "chargeonce %s\n", v)
				return fatal(err)
			}
			encoded, err := encode(v)
			if err == nil {
				_, err = fmt.Fprintf(a.out, "%s\n", encoded)
			}
			return fatal(err)
		},
	}
}

// version is what the build says of itself.
type version struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from a tree with uncommitted changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (v version) String() string {
	text := v.Version
	if v.Commit != "" {
		text += " (" + v.Commit[:min(12, len(v.Commit))]
		if v.Modified {
			text += ", modified"
		}
		text += ")"
	}
	return text + " " + v.Go + " " + v.Platform
}

func readVersion() version {
	v := version{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
