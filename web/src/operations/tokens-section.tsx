/** Tokens of people: which there are, new ones, and revoking them. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, ask, type Shapes } from "../api/client";
import { useSession } from "../api/session";
import { time } from "../format";
import { Confirm } from "../parts/dialog";
import { Empty, Failure, Loading } from "../parts/notice";
import styles from "./operations.module.css";
import { NewToken } from "./token-form";
import { WideTable } from "./wide-table";

type Token = Shapes["Token"];

/** The section. */
export function TokensSection() {
  const own = useSession().data?.id;
  const [revoking, setRevoking] = useState<Token>();
  const tokens = useQuery({
    queryKey: ["tokens"],
    queryFn: ({ signal }) => ask(api.GET("/api/internal/tokens", { signal })),
  });
  return (
    <>
      <NewToken />
      {tokens.isPending && <Loading what="tokens" />}
      {tokens.isError && <Failure error={tokens.error} again={() => tokens.refetch()} />}
      {tokens.data?.data.length === 0 && <Empty title="No tokens" />}
      {tokens.data && tokens.data.data.length > 0 && (
        <section className="card">
          <WideTable label="Tokens" heads={["Name", "Id", "Role", "Projects", "Created", "Expires", "State", ""]}>
            {[...tokens.data.data].reverse().map((token) => (
              <tr key={token.id}>
                <td dir="auto">{token.name || <span className="soft">no name</span>}</td>
                <td className="mono">{token.id}</td>
                <td>{token.role}</td>
                <td>{token.projects?.join(", ") ?? "all"}</td>
                <td className={styles.time}>{time(token.created_at)}</td>
                <td className={styles.time}>{token.expires_at ? time(token.expires_at) : "never"}</td>
                <td>
                  <State token={token} />
                  {token.id === own && <span className="chip info">you</span>}
                </td>
                <td>
                  {!token.revoked_at && (
                    <button type="button" className="danger" onClick={() => setRevoking(token)}>
                      Revoke<span className="unseen"> {token.name || token.id}</span>
                    </button>
                  )}
                </td>
              </tr>
            ))}
          </WideTable>
        </section>
      )}
      {revoking && <RevokeToken of={revoking} isOwn={revoking.id === own} onClose={() => setRevoking(undefined)} />}
    </>
  );
}

function State({ token }: { token: Token }) {
  if (token.revoked_at) return <span className="chip bad">revoked {time(token.revoked_at)}</span>;
  if (token.expires_at && Date.parse(token.expires_at) <= Date.now()) return <span className="chip warn">ended</span>;
  return <span className="chip good">good</span>;
}

function RevokeToken({ of, isOwn, onClose }: { of: Token; isOwn: boolean; onClose: () => void }) {
  const client = useQueryClient();
  const revoke = useMutation({
    mutationFn: () => ask(api.DELETE("/api/internal/tokens/{id}", { params: { path: { id: of.id } } })),
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: ["tokens"] });
      onClose();
    },
  });
  return (
    <Confirm
      title="Revoke this token?"
      yes={revoke.isPending ? "Revoking…" : isOwn ? "Revoke and sign me out" : "Revoke"}
      isPending={revoke.isPending}
      onYes={() => revoke.mutate()}
      onClose={onClose}
    >
      {isOwn && (
        <p className="notice warn">
          You are signed in with this token. Your session ends with it; without another token you cannot sign in again.
        </p>
      )}
      <p>
        <bdi>{of.name || of.id}</bdi> ({of.role}) is rejected from then on, and its sessions end. This cannot be taken
        back.
      </p>
      {revoke.isError && <Failure error={revoke.error} />}
    </Confirm>
  );
}
