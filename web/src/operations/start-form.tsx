/** Starts a process with an input, once however often it is sent. */

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { Link } from "react-router";
import { ApiFault, api, ask, type Shapes } from "../api/client";
import { useRole } from "../api/session";
import { Failure } from "../parts/notice";
import { randomId } from "../parts/random-id";
import { runLink } from "../runs/run-link";
import { JsonEditor, syntaxFault, type TextFault } from "./json-editor";
import { nodeAt, pointerSteps, readJson } from "./json-text";
import { instanceLink } from "./process-link";
import { draftText, violations } from "./start-input";

type Props = { build: Shapes["Build"]; process: Shapes["Process"] };

/** The form. */
export function StartForm({ build, process }: Props) {
  const client = useQueryClient();
  const [text, setText] = useState(() => draftText(process.schema));
  // The same input sent again is the same start, after a lost answer too; another input is another one.
  const sent = useRef<{ text: string; key: string }>(null);
  const start = useMutation({
    mutationFn: () => {
      if (sent.current?.text !== text) sent.current = { text, key: randomId() };
      const path = { appId: build.appId, buildId: build.buildId, processDefinitionName: process.name };
      return ask(
        api.POST("/rtm/api/runtime/app/{appId}/build/{buildId}/process-name/{processDefinitionName}/start", {
          params: {
            path,
            query: { project_id: build.projectId },
            header: { "svc-platform": "web", "Idempotency-Key": sent.current.key },
          },
          // As it was written: numbers keep their digits.
          body: text as never,
          bodySerializer: (written) => written as unknown as string,
        }),
      );
    },
    onSuccess: () => client.invalidateQueries({ queryKey: ["instances"] }),
  });
  const fault = syntaxFault(text);
  const change = (next: string) => {
    setText(next);
    if (start.isError) start.reset();
  };
  if (start.data) {
    return (
      <Started
        instance={start.data}
        build={build}
        again={() => {
          sent.current = null;
          start.reset();
        }}
      />
    );
  }
  const wrong = start.error instanceof ApiFault ? violations(start.error.details) : [];
  const places = fault ? [fault] : wrong.map((one): TextFault => placed(text, one.path, one.message));
  return (
    <form
      className="stack"
      aria-label={`Start ${process.name}`}
      onSubmit={(event) => {
        event.preventDefault();
        if (!fault) start.mutate();
      }}
    >
      <JsonEditor label="Input (JSON)" text={text} faults={places} onChange={change} />
      {start.isError && <Failure error={start.error} />}
      <div className="row">
        <button type="submit" className="primary" disabled={start.isPending || fault !== undefined}>
          {start.isPending ? "Starting…" : "Start"}
        </button>
        <button type="button" onClick={() => change(draftText(process.schema))}>
          Reset to the draft
        </button>
      </div>
    </form>
  );
}

function placed(text: string, path: string, message: string): TextFault {
  const said = `${path || "the whole input"}: ${message}`;
  try {
    return { message: said, at: nodeAt(readJson(text), pointerSteps(path)).at };
  } catch {
    return { message: said, at: undefined };
  }
}

type StartedProps = { instance: Shapes["Started"]; build: Shapes["Build"]; again: () => void };

function Started({ instance, build, again }: StartedProps) {
  const seesRuns = useRole("viewer");
  const run = { run_id: instance.uuid, app_id: instance.applicationId, project_id: build.projectId };
  return (
    <div className="notice good stack" role="status">
      <p>
        Started: instance <code>{instance.uuid}</code>, number {instance.instanceMetadata.processInstanceId}.
      </p>
      <div className="row">
        <Link className="button" to={instanceLink(instance.uuid, build.projectId)}>
          Show the instance
        </Link>
        {seesRuns && (
          <Link className="button" to={runLink(run)}>
            Show its run
          </Link>
        )}
        <button type="button" onClick={again}>
          Start another
        </button>
      </div>
    </div>
  );
}
