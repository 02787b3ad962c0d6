/** The page of the API at `/docs`: rendered when the UI is built, without scripts. */

import { Fragment, type ReactNode } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { type Body, type Document, nameOf, operationsOf, type Schema } from "./document";

/** The body of the page as HTML. */
export function apiPage(document: Document): string {
  return renderToStaticMarkup(<ApiPage document={document} />);
}

function ApiPage({ document }: { document: Document }) {
  const operations = operationsOf(document);
  return (
    <>
      <h1>{document.info.title}: API</h1>
      <p>
        <Prose text={document.info.description} />
      </p>
      <p>
        For programs: <a href="/api/openapi.json">/api/openapi.json</a>.
      </p>
      <nav>
        {operations.map(({ id, method, path, operation }) => (
          <a key={id} href={`#${id}`}>
            <code>
              {method} {path}
            </code>{" "}
            {operation.summary}
          </a>
        ))}
      </nav>
      {operations.map((one) => (
        <OperationPart key={one.id} {...one} />
      ))}
      <h1>Schemas</h1>
      {Object.entries(document.components.schemas).map(([name, schema]) => (
        <SchemaPart key={name} name={name} schema={schema} />
      ))}
    </>
  );
}

function OperationPart({ id, method, path, operation }: ReturnType<typeof operationsOf>[number]) {
  const { requestBody } = operation;
  return (
    <>
      <h2 id={id}>
        <code>
          {method} {path}
        </code>{" "}
        {operation.summary}
      </h2>
      <p>
        <Prose text={operation.description} />
      </p>
      <Table
        head={["Parameter", "Type", "Meaning"]}
        rows={(operation.parameters ?? []).map((one) => [
          <>
            <code>{one.name}</code> {one.in}
          </>,
          <Type key="type" of={one.schema} />,
          <Prose key="text" text={one.description} />,
        ])}
      />
      {requestBody && (
        <p>
          Body: <Contents of={requestBody} />. <Prose text={requestBody.description} />
        </p>
      )}
      <Table
        head={["Status", "Body", "Meaning"]}
        rows={Object.entries(operation.responses ?? {}).map(([status, response]) => [
          <code key="status">{status}</code>,
          <Contents key="body" of={response} />,
          <Prose key="text" text={response.description} />,
        ])}
      />
    </>
  );
}

/** A named schema: its fields, or the values that it allows. */
function SchemaPart({ name, schema }: { name: string; schema: Schema }) {
  // A schema that extends another has its fields in parts.
  const rows = [schema, ...(schema.allOf ?? [])].flatMap((part): ReactNode[][] => [
    ...(part.$ref ? [["", <Type key="type" of={part} />, "and its fields"]] : []),
    ...Object.entries(part.properties ?? {}).map(([field, value]) => [
      <code key="field">{field}</code>,
      <Type key="type" of={value} />,
      <Prose key="text" text={value.description} />,
    ]),
  ]);
  return (
    <>
      <h2 id={`schema-${name}`}>{name}</h2>
      <p>
        <Prose text={schema.description} />
      </p>
      {rows.length === 0 && (
        <p>
          <Type of={schema} />
        </p>
      )}
      <Table head={["Field", "Type", "Meaning"]} rows={rows} />
    </>
  );
}

function Contents({ of }: { of: Body }) {
  return joined(Object.entries(of.content ?? {}), ", ", ([media, { schema }]) => (
    <>
      {media} {schema && <Type of={schema} />}
    </>
  ));
}

function Type({ of }: { of: Schema }): ReactNode {
  if (of.$ref) {
    const name = nameOf(of.$ref);
    return <a href={`#schema-${name}`}>{name}</a>;
  }
  const parts = of.oneOf ?? of.anyOf ?? of.allOf;
  if (parts) return joined(parts, " or ", (part) => <Type of={part} />);
  if (of.enum) return joined(of.enum, " or ", (value) => <code>{String(value)}</code>);
  return (
    <>
      {[of.type ?? []].flat().join(" or ")}
      {of.items && (
        <>
          {" of "}
          <Type of={of.items} />
        </>
      )}
      {of.minimum !== undefined && `, at least ${of.minimum}`}
      {of.maximum !== undefined && `, at most ${of.maximum}`}
      {of.pattern !== undefined && (
        <>
          , matching <code>{of.pattern}</code>
        </>
      )}
    </>
  );
}

/** Text with `code` in it. */
function Prose({ text = "" }: { text?: string | undefined }) {
  // biome-ignore lint/suspicious/noArrayIndexKey: the page is rendered once
  return text.split("`").map((part, index) => (index % 2 === 0 ? part : <code key={index}>{part}</code>));
}

function Table({ head, rows }: { head: string[]; rows: ReactNode[][] }) {
  if (rows.length === 0) return null;
  return (
    <table>
      <thead>
        <tr>
          {head.map((name) => (
            <th key={name}>{name}</th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the page is rendered once
          <tr key={index}>
            {row.map((cell, column) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: the page is rendered once
              <td key={column}>{cell}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function joined<T>(items: T[], between: string, show: (item: T) => ReactNode): ReactNode {
  return items.map((item, index) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: the page is rendered once
    <Fragment key={index}>
      {index > 0 && between}
      {show(item)}
    </Fragment>
  ));
}
