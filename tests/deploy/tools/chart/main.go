// Command chart lints and renders a Helm chart with Helm's own code: `chart CHART NAMESPACE RELEASE [VALUES...]`.
//
// Warnings of the linter are faults. What is rendered goes to standard output, hooks included.
package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"sort"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
)

// Kubernetes 1.30 is the oldest version the chart says it supports.
const kubernetes = "v1.30.0"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) < 3 {
		return errors.New("usage: chart CHART NAMESPACE RELEASE [VALUES...]")
	}
	folder, namespace, release := arguments[0], arguments[1], arguments[2]
	values := map[string]any{}
	for _, file := range arguments[3:] {
		given, err := chartutil.ReadValuesFile(file)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		// What comes later wins, as with several `--values`.
		values = chartutil.CoalesceTables(given, values)
	}
	chart, err := loader.Load(folder)
	if err != nil {
		return err
	}
	version, err := chartutil.ParseKubeVersion(kubernetes)
	if err != nil {
		return err
	}
	linter := lint.AllWithKubeVersionAndSchemaValidation(folder, values, namespace, version, false)
	var faults []string
	for _, message := range linter.Messages {
		if message.Severity >= support.WarningSev {
			faults = append(faults, message.Error())
		}
	}
	if len(faults) > 0 {
		return errors.New(strings.Join(faults, "\n"))
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version
	options := chartutil.ReleaseOptions{Name: release, Namespace: namespace, Revision: 1, IsInstall: true}
	full, err := chartutil.ToRenderValues(chart, values, options, capabilities)
	if err != nil {
		return err
	}
	rendered, err := engine.Render(chart, full)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(rendered))
	for name := range rendered {
		if extension := path.Ext(name); extension == ".yaml" && strings.TrimSpace(rendered[name]) != "" {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Printf("---\n# Source: %s\n%s\n", name, strings.TrimPrefix(strings.TrimSpace(rendered[name]), "---\n"))
	}
	return nil
}
