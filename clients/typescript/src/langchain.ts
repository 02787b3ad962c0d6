/** A callback handler for LangChain: models, chains, tools and retrievers of `@langchain/core` as runs. */

import type { Spindle } from "./client.js";
import { defaultClient } from "./default-client.js";
import type { RunType } from "./event.js";
import { type Fields, fieldsOf, pick, textOf } from "./integrations/fields.js";
import { messagesOf, nameOfSerialized, outputOf, plain, usageOf } from "./integrations/langchain-message.js";
import type { Run, RunOptions } from "./run.js";

/** How to report the runs of LangChain. */
export interface HandlerOptions {
  /** The client that reports. Default: the default client, looked up at each run. */
  spindle?: Spindle | undefined;
  /** Default: the client's. */
  captureInput?: boolean | undefined;
  /** Default: the client's. */
  captureOutput?: boolean | undefined;
}

/** Runs that began and may never end: beyond this many the oldest is forgotten, and stays open. */
const OPEN_RUNS = 10_000;
/** Parameters of a model worth seeing beside the run. */
const PARAMETERS = ["temperature", "top_p", "max_tokens", "maxTokens", "stop", "tools", "tool_choice"] as const;

/** LangChain marks the steps of a sequence and the branches of a map with tags of its own. */
const INTERNAL_TAG = /^(seq:step|map:key):/;

/** What LangChain says about a model call. */
interface About {
  model: unknown;
  extra: unknown;
  tags: string[] | undefined;
  metadata: Fields | undefined;
  name: string | undefined;
}

/**
 * To be given as `callbacks: [new SpindleHandler()]`.
 *
 * Run ids are LangChain's own. A run at the top belongs to the run of this library that is current there. A model that
 * is observed in another way as well is reported twice: choose one way.
 */
export class SpindleHandler {
  /** What LangChain asks of a handler; see `BaseCallbackHandlerInput` of `@langchain/core`. */
  readonly name = "SpindleHandler";
  readonly ignoreLLM = false;
  readonly ignoreChain = false;
  /** Tools go by this flag. */
  readonly ignoreAgent = false;
  readonly ignoreRetriever = false;
  readonly ignoreCustomEvent = true;
  readonly raiseError = false;
  /** Called at once instead of some time later: values are copied while they are what they were. */
  readonly awaitHandlers = true;
  private readonly runs = new Map<string, Run>();

  constructor(private readonly options: HandlerOptions = {}) {}

  /** LangChain copies handlers; the open runs belong to all copies. */
  copy(): SpindleHandler {
    return this;
  }

  handleChatModelStart(
    model: unknown,
    messages: unknown[][],
    id: string,
    parent?: string,
    extra?: unknown,
    tags?: string[],
    metadata?: Fields,
    name?: string,
  ): void {
    const conversations = messages.map(messagesOf);
    this.beginModel(id, parent, conversations, { model, extra, tags, metadata, name });
  }

  handleLLMStart(
    model: unknown,
    prompts: string[],
    id: string,
    parent?: string,
    extra?: unknown,
    tags?: string[],
    metadata?: Fields,
    name?: string,
  ): void {
    this.beginModel(id, parent, prompts, { model, extra, tags, metadata, name });
  }

  /** A piece of a streamed answer. */
  handleLLMNewToken(
    token: string,
    _index: unknown,
    id: string,
    _parent?: string,
    _tags?: string[],
    about?: Fields,
  ): void {
    const { message } = fieldsOf(fieldsOf(about).chunk);
    const calls = fieldsOf(message).tool_call_chunks;
    if (token !== "" || (Array.isArray(calls) && calls.length > 0)) this.runs.get(id)?.firstToken();
  }

  handleLLMEnd(output: unknown, id: string): void {
    this.finish(id, (run) => run.end(outputOf(output), usageOf(output)));
  }

  handleLLMError(error: unknown, id: string): void {
    this.finish(id, (run) => run.fail(error));
  }

  /** In the order in which it is called (manager.js of 1.4.0), which is not that of its declared type. */
  handleChainStart(
    chain: unknown,
    input: unknown,
    id: string,
    parent?: string,
    tags?: string[],
    metadata?: Fields,
    runType?: string,
    name?: string,
  ): void {
    const type = runType === "agent" ? "agent" : "chain";
    const options = { name: name ?? nameOfSerialized(chain), input: plain(unwrapped(input, "input")), tags, metadata };
    this.begin(type, id, parent, options);
  }

  handleChainEnd(output: unknown, id: string): void {
    this.finish(id, (run) => run.end(plain(unwrapped(output, "output"))));
  }

  handleChainError(error: unknown, id: string): void {
    this.finish(id, (run) => run.fail(error));
  }

  handleToolStart(
    tool: unknown,
    input: string,
    id: string,
    parent?: string,
    tags?: string[],
    metadata?: Fields,
    name?: string,
  ): void {
    this.begin("tool", id, parent, { name: name ?? nameOfSerialized(tool), input, tags, metadata });
  }

  handleToolEnd(output: unknown, id: string): void {
    this.finish(id, (run) => run.end(plain(output)));
  }

  handleToolError(error: unknown, id: string): void {
    this.finish(id, (run) => run.fail(error));
  }

  handleRetrieverStart(
    retriever: unknown,
    query: string,
    id: string,
    parent?: string,
    tags?: string[],
    metadata?: Fields,
    name?: string,
  ): void {
    this.begin("tool", id, parent, { name: name ?? nameOfSerialized(retriever), input: query, tags, metadata });
  }

  handleRetrieverEnd(documents: unknown, id: string): void {
    this.finish(id, (run) => run.end(plain(documents)));
  }

  handleRetrieverError(error: unknown, id: string): void {
    this.finish(id, (run) => run.fail(error));
  }

  private beginModel(id: string, parent: string | undefined, conversations: unknown[], about: About): void {
    const parameters = fieldsOf(fieldsOf(about.extra).invocation_params);
    const { metadata } = about;
    this.begin("llm", id, parent, {
      name: about.name ?? nameOfSerialized(about.model),
      input: conversations.length === 1 ? conversations[0] : conversations,
      model: textOf(parameters.model) ?? textOf(parameters.model_name) ?? textOf(metadata?.ls_model_name),
      tags: about.tags,
      metadata: { ...metadata, ...pick(parameters, PARAMETERS) },
    });
  }

  private begin(type: RunType, id: string, parent: string | undefined, options: RunOptions): void {
    const { spindle, captureInput, captureOutput } = this.options;
    // The run of LangChain around this one if it is known here, else whatever is current in the application.
    const around = parent === undefined ? undefined : (this.runs.get(parent) ?? parent);
    const thread = textOf(options.metadata?.thread_id);
    const metadata = own(options.metadata);
    const run = (spindle ?? defaultClient()).start(type, {
      ...options,
      metadata,
      tags: options.tags?.filter((tag) => !INTERNAL_TAG.test(tag)),
      runId: id,
      parent: around,
      thread,
      captureInput,
      captureOutput,
    });
    this.runs.set(id, run);
    if (this.runs.size > OPEN_RUNS) {
      for (const oldest of this.runs.keys()) {
        this.runs.delete(oldest);
        break;
      }
    }
  }

  private finish(id: string, end: (run: Run) => void): void {
    const run = this.runs.get(id);
    if (!run) return;
    this.runs.delete(id);
    try {
      end(run);
    } catch {
      run.end();
    }
  }
}

/** The metadata of the application, without that of LangChain. */
function own(metadata: Fields | undefined): Fields | undefined {
  if (metadata === undefined) return undefined;
  const isOwn = ([key, value]: [string, unknown]) => !/^(ls_|lc_)/.test(key) && !("@langchain/core" in fieldsOf(value));
  return Object.fromEntries(Object.entries(metadata).filter(isOwn));
}

/** LangChain puts what is no object into one, under this name. */
function unwrapped(value: unknown, name: string): unknown {
  const fields = fieldsOf(value);
  const keys = Object.keys(fields);
  return keys.length === 1 && keys[0] === name ? fields[name] : value;
}
