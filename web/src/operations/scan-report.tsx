/** The report of a scan of the platform. */

import type { ReactNode } from "react";
import type { Shapes } from "../api/client";
import { count, time } from "../format";
import styles from "./operations.module.css";
import { WideTable } from "./wide-table";

type Report = Shapes["ScanReport"];
const KINDS = { healthy: "good", unhealthy: "bad", unknown: "" } as const;

/** How something is, in a word and a colour. */
export function Health({ status }: { status: Shapes["HealthStatus"] }) {
  return <span className={`chip ${KINDS[status]}`}>{status}</span>;
}

/** The whole report. */
export function ScanReport({ report }: { report: Report }) {
  const { summary } = report;
  return (
    <>
      <div className={styles.figures}>
        <Figure label="Services healthy" value={`${count(report.healthyServices)} of ${count(report.totalServices)}`} />
        <Figure label="Unhealthy" value={count(report.unhealthyServices)} isBad={report.unhealthyServices > 0} />
        <Figure label="Issues" value={count(summary.issuesDetected)} isBad={summary.issuesDetected > 0} />
        <Figure label="New services" value={count(summary.newServicesFound)} />
        <Figure label="Settings changed" value={count(summary.configurationChanges)} />
        <Figure label="Took" value={summary.scanDuration} />
      </div>
      {summary.recommendations.length > 0 && (
        <section className="notice warn stack" aria-label="Recommendations">
          <h2>Recommended actions</h2>
          <ol className={styles.list}>
            {summary.recommendations.map((text) => (
              <li key={text} dir="auto">
                {text}
              </li>
            ))}
          </ol>
        </section>
      )}
      <section className="card stack" aria-label="Services">
        <h2>Services</h2>
        <WideTable
          label="Services of the scan"
          heads={["Service", "State", "Version", "Address", "Capabilities", "Probed"]}
        >
          {Object.entries(report.services).map(([key, service]) => (
            <tr key={key}>
              <td>
                <bdi>{service.name}</bdi>
                <div className="mono soft">{key}</div>
              </td>
              <td>
                <Health status={service.status} />
                {service.error && (
                  <div className={styles.error} dir="auto">
                    {service.error}
                  </div>
                )}
              </td>
              <td dir="auto">{service.version}</td>
              <td>
                {service.endpoint ? (
                  <bdi className="mono">{service.endpoint}</bdi>
                ) : (
                  <span className="soft">not set</span>
                )}
              </td>
              <td>
                <span className={styles.chips}>
                  {service.capabilities.map((one) => (
                    <bdi key={one} className="chip">
                      {one}
                    </bdi>
                  ))}
                </span>
              </td>
              <td className={styles.time}>{time(service.lastHealthCheck)}</td>
            </tr>
          ))}
        </WideTable>
      </section>
      <Infrastructure report={report} />
    </>
  );
}

function Infrastructure({ report }: { report: Report }) {
  const { database, messageBroker, cacheStore } = report.infrastructure;
  const { authProvider, documentStorage } = report.externalIntegrations;
  return (
    <>
      <h2>Infrastructure</h2>
      <div className={styles.cards}>
        <Thing title="Database" status={database.status} asked={database.lastHealthCheck}>
          <Fact name="Kind">{`${database.type} ${database.version}`}</Fact>
          <Fact name="Connections">
            {`${database.connections.active} active, ${database.connections.idle} idle, ${database.connections.max} at most`}
          </Fact>
        </Thing>
        <Thing title="Message broker" status={messageBroker.status} asked={messageBroker.lastHealthCheck}>
          <Fact name="Kind">{`${messageBroker.type} ${messageBroker.version}`}</Fact>
          <Fact name="Brokers">{count(messageBroker.brokers)}</Fact>
          <Fact name="Topics">{count(messageBroker.topics)}</Fact>
        </Thing>
        <Thing title="Cache store" status={cacheStore.status} asked={cacheStore.lastHealthCheck}>
          <Fact name="Kind">{`${cacheStore.type} ${cacheStore.version}`}</Fact>
          <Fact name="Memory">{`${cacheStore.memory.used} used, ${cacheStore.memory.available} free`}</Fact>
        </Thing>
      </div>
      <h2>External systems</h2>
      <div className={styles.cards}>
        <Thing title="Identity provider" status={authProvider.status} asked={authProvider.lastHealthCheck}>
          <Fact name="Name">{authProvider.name}</Fact>
          <Fact name="Issuer">{authProvider.endpoint || "not set"}</Fact>
        </Thing>
        <Thing title="Document storage" status={documentStorage.status} asked={documentStorage.lastHealthCheck}>
          <Fact name="Name">{documentStorage.name}</Fact>
          <Fact name="Address">{documentStorage.endpoint || "not set"}</Fact>
          <Fact name="Buckets">{count(documentStorage.buckets)}</Fact>
        </Thing>
      </div>
    </>
  );
}

type ThingProps = { title: string; status: Shapes["HealthStatus"]; asked: string | undefined; children: ReactNode };

function Thing({ title, status, asked, children }: ThingProps) {
  return (
    <section className="card stack" aria-label={title}>
      <div className="row">
        <h3 className="grow">{title}</h3>
        <Health status={status} />
      </div>
      <dl className={styles.facts}>
        {children}
        <Fact name="Asked">{time(asked)}</Fact>
      </dl>
    </section>
  );
}

/** A name and what it is, in a list of facts. */
export function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt>{name}</dt>
      <dd dir="auto">{children}</dd>
    </>
  );
}

/** A figure with its name above it. */
export function Figure({ label, value, isBad = false }: { label: string; value: ReactNode; isBad?: boolean }) {
  return (
    <div className={styles.figure}>
      <span className="soft">{label}</span>
      <strong className={isBad ? styles.bad : ""}>{value}</strong>
    </div>
  );
}
