/** The parts of an OpenAPI document that its page shows. */

export type Document = {
  info: { title: string; description?: string };
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
};

export type Operation = {
  summary?: string;
  description?: string;
  parameters?: { name: string; in: string; description?: string; schema: Schema }[];
  requestBody?: Body;
  responses?: Record<string, Body>;
};

export type Body = { description?: string; content?: Record<string, { schema?: Schema }> };

export type Schema = {
  $ref?: string;
  description?: string;
  type?: string | string[];
  enum?: unknown[];
  items?: Schema;
  properties?: Record<string, Schema>;
  oneOf?: Schema[];
  anyOf?: Schema[];
  allOf?: Schema[];
  minimum?: number;
  maximum?: number;
  pattern?: string;
};

/** The operations in the order of the document, each with an id for links. */
export function operationsOf(document: Document) {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([, operation]) => operation.responses)
      .map(([method, operation]) => ({
        id: `${method}${path.replace(/[^A-Za-z0-9]/g, "-")}`,
        method: method.toUpperCase(),
        path,
        operation,
      })),
  );
}

/** The name of the schema that a reference leads to. */
export function nameOf(reference: string): string {
  return reference.slice(reference.lastIndexOf("/") + 1);
}
