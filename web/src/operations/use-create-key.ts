/** Creates API keys. The answer holds the secret: nothing but the caller keeps it. */

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, ask, type Shapes } from "../api/client";

type NewKey = { project_id: string; name: string; scopes: Shapes["Scope"][] };

/** The request; `onCreated` gets the key, once. */
export function useCreateKey(onCreated: (key: Shapes["MadeKey"]) => void) {
  const client = useQueryClient();
  const create = useMutation({
    mutationFn: (body: NewKey) => ask(api.POST("/api/internal/keys", { body })),
    gcTime: 0,
    // Here and not where it is called: a form that is gone by then must not lose the secret.
    onSuccess: (key) => {
      onCreated(key);
      client.invalidateQueries({ queryKey: ["keys"] });
    },
  });
  const submit = (body: NewKey) => create.mutate(body, { onSuccess: create.reset });
  return { submit, isPending: create.isPending, error: create.error };
}
