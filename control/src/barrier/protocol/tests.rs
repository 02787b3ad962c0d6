//! Processes with delayed messages, pauses, kills and starts: no step is ever in progress while a coordinator works.

use proptest::prelude::*;
use schemas::control::{Heartbeat, ProcessorState};

use super::*;

/// Numbers choose a process.
#[derive(Clone, Debug)]
enum Act {
    Wait(u16),
    /// A process receives some of the messages that it has not received yet.
    Receive(usize, u8),
    /// Receives all messages and acts on them.
    Wake(usize),
    /// All processes wake, for so many seconds.
    Run(u8),
    /// A step begins, if it may.
    Begin(usize),
    /// A step stores, if it may.
    Store(usize),
    End(usize),
    Acquire(usize),
    Release(usize),
    /// Messages it publishes are delayed until the next act of this kind.
    Mute(usize),
    Kill(usize),
    Start,
}

fn any_act() -> impl Strategy<Value = Act> {
    let who = 0usize..4;
    prop_oneof![
        3 => (1u16..4000).prop_map(Act::Wait),
        3 => (who.clone(), 1u8..6).prop_map(|(who, messages)| Act::Receive(who, messages)),
        4 => who.clone().prop_map(Act::Wake),
        6 => (1u8..18).prop_map(Act::Run),
        4 => who.clone().prop_map(Act::Begin),
        4 => who.clone().prop_map(Act::Store),
        3 => who.clone().prop_map(Act::End),
        3 => who.clone().prop_map(Act::Acquire),
        2 => who.clone().prop_map(Act::Release),
        1 => who.clone().prop_map(Act::Mute),
        1 => who.prop_map(Act::Kill),
        1 => Just(Act::Start),
    ]
}

/// A step, with what it saw of the tables when it began.
struct Step {
    epoch: u64,
    works: usize,
}

struct Process {
    name: String,
    members: Membership,
    protocol: Protocol,
    /// The next message of the topic that it receives.
    next: usize,
    state: PermitState,
    steps: Vec<Step>,
    unpublished: Vec<ControlMessage>,
    is_mute: bool,
    barriers: u32,
}

struct World {
    now: Instant,
    topic: Vec<ControlMessage>,
    processes: Vec<Process>,
    names: u32,
    /// Moments at which a coordinator worked.
    works: usize,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            now: Instant::now(),
            topic: Vec::new(),
            processes: Vec::new(),
            names: 0,
            works: 0,
        };
        world.start();
        world.start();
        world
    }

    fn start(&mut self) {
        if self.processes.len() == 4 {
            return;
        }
        self.names += 1;
        let name = format!("p{}", self.names);
        let protocol = Protocol::default();
        self.processes.push(Process {
            members: Membership::new(name.clone(), Duration::from_secs(1)),
            name,
            state: protocol.permit_state(self.now),
            protocol,
            next: self.topic.len(),
            steps: Vec::new(),
            unpublished: Vec::new(),
            is_mute: false,
            barriers: 0,
        });
    }

    /// Does what the driver does after each event.
    fn advance(&mut self, who: usize) {
        let process = &mut self.processes[who];
        let (protocol, members) = (&mut process.protocol, &mut process.members);
        let is_drained = protocol.is_requested() && process.steps.is_empty();
        protocol.drained(is_drained, members, self.now);
        for effect in protocol.effects() {
            if let Effect::Publish(message) = effect {
                process.unpublished.push(message);
            }
        }
        if members.is_due(self.now) {
            let heartbeat = Heartbeat {
                processor: Some(ProcessorState {
                    barrier: protocol.paused_at().map(str::to_owned),
                    partitions: 0,
                }),
                ..Heartbeat::default()
            };
            let stamped = Box::new(members.stamp(heartbeat, self.now));
            let message = ControlMessage::Heartbeat(stamped);
            process.unpublished.push(message);
        }
        if !process.is_mute {
            self.topic.append(&mut process.unpublished);
        }
        process.state = process.protocol.permit_state(self.now);
    }

    fn receive(&mut self, who: usize, messages: usize) {
        for _ in 0..messages {
            let process = &mut self.processes[who];
            let Some(message) = self.topic.get(process.next).cloned() else {
                break;
            };
            process.next += 1;
            let members = &mut process.members;
            process.protocol.receive(message, members, self.now);
            self.advance(who);
        }
    }

    fn wake(&mut self, who: usize) {
        let process = &mut self.processes[who];
        process.protocol.tick(&mut process.members, self.now);
        self.advance(who);
        self.receive(who, usize::MAX);
    }

    fn act(&mut self, act: &Act) {
        let count = self.processes.len();
        let place = |who: &usize| *who % count.max(1);
        match act {
            Act::Wait(ms) => self.now += Duration::from_millis(u64::from(*ms)),
            Act::Start => self.start(),
            Act::Run(seconds) => {
                for _ in 0..*seconds * 2 {
                    self.now += Duration::from_millis(500);
                    (0..self.processes.len()).for_each(|who| self.wake(who));
                }
            }
            _ if count == 0 => {}
            Act::Receive(who, messages) => self.receive(place(who), usize::from(*messages)),
            Act::Wake(who) => self.wake(place(who)),
            Act::Begin(who) => self.begin(place(who)),
            Act::Store(who) => self.store(place(who)),
            Act::End(who) => {
                self.processes[place(who)].steps.pop();
                self.advance(place(who));
            }
            Act::Acquire(who) => {
                let process = &mut self.processes[place(who)];
                process.barriers += 1;
                let barrier = format!("{}-{}", process.name, process.barriers);
                if process.protocol.own.is_none() {
                    process.protocol.acquire(barrier, self.now);
                }
                self.advance(place(who));
            }
            Act::Release(who) => {
                let process = &mut self.processes[place(who)];
                process.protocol.release(BarrierOutcome::Nothing);
                self.advance(place(who));
            }
            Act::Mute(who) => {
                let process = &mut self.processes[place(who)];
                process.is_mute = !process.is_mute;
                self.advance(place(who));
            }
            Act::Kill(who) => {
                self.processes.remove(place(who));
            }
        }
        self.work();
    }

    /// Uses the state that was published when the process was last awake: the workers see nothing else.
    fn begin(&mut self, who: usize) {
        let works = self.works;
        let process = &mut self.processes[who];
        let begins = process.state.begin_until;
        if begins.is_some_and(|until| self.now < until) && !process.protocol.is_requested() {
            process.steps.push(Step {
                epoch: process.state.epoch,
                works,
            });
        }
    }

    fn store(&mut self, who: usize) {
        let is_held = self.is_held();
        let process = &mut self.processes[who];
        let state = process.state;
        // A step of an earlier epoch finds out, and is repeated.
        process.steps.retain(|step| step.epoch == state.epoch);
        if state.store_until.is_some_and(|until| self.now < until) {
            for step in &process.steps {
                assert!(!is_held, "a step stores while a coordinator works");
                assert_eq!(
                    step.works, self.works,
                    "a step stores what it read before a coordinator worked"
                );
            }
        }
        self.advance(who);
    }

    fn is_held(&self) -> bool {
        (0..self.processes.len()).any(|who| self.is_held_by(who))
    }

    fn is_held_by(&self, who: usize) -> bool {
        let held = self.processes[who].protocol.held();
        held.is_some_and(|(_, until)| self.now < until)
    }

    /// A coordinator that may work does.
    fn work(&mut self) {
        if self.is_held() {
            self.works += 1;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_step_is_under_way_while_a_coordinator_works_whatever_is_late_paused_or_killed(
        acts in proptest::collection::vec(any_act(), 1..120)
    ) {
        let mut world = World::new();
        world.act(&Act::Run(17));
        acts.iter().for_each(|act| world.act(act));
        // Whatever happened, work continues: steps begin, and a barrier is acquired.
        (0..world.processes.len()).for_each(|who| {
            world.processes[who].is_mute = false;
            world.processes[who].steps.clear();
            world.processes[who].protocol.release(BarrierOutcome::Nothing);
            world.advance(who);
        });
        world.act(&Act::Run(90));
        for process in &world.processes {
            prop_assert!(process.state.begin_until.is_some_and(|until| world.now < until));
        }
        if !world.processes.is_empty() {
            world.act(&Act::Acquire(0));
            world.act(&Act::Run(3));
            prop_assert!(world.is_held());
        }
    }
}

#[test]
fn the_barrier_of_a_coordinator_that_dies_expires() {
    let mut world = World::new();
    world.act(&Act::Run(20));
    world.act(&Act::Acquire(0));
    world.act(&Act::Run(2));
    assert!(world.is_held());
    world.act(&Act::Kill(0));
    world.act(&Act::Run(5));
    world.act(&Act::Begin(0));
    assert!(world.processes[0].steps.is_empty(), "paused");
    world.act(&Act::Run(7));
    world.act(&Act::Begin(0));
    assert_eq!(world.processes[0].steps.len(), 1);
}

#[test]
fn two_coordinators_take_turns() {
    let mut world = World::new();
    world.act(&Act::Run(20));
    world.act(&Act::Acquire(0));
    world.act(&Act::Acquire(1));
    world.act(&Act::Run(3));
    assert!(world.is_held_by(0) && !world.is_held_by(1));
    world.act(&Act::Release(0));
    world.act(&Act::Run(3));
    assert!(world.is_held_by(1));
}

#[test]
fn coordinators_that_a_new_process_knows_in_another_order_take_turns() {
    let mut world = World::new();
    world.act(&Act::Start);
    world.act(&Act::Run(20));
    // Both wait until a process that was killed is forgotten.
    world.act(&Act::Kill(2));
    world.act(&Act::Acquire(0));
    world.act(&Act::Acquire(1));
    world.act(&Act::Run(2));
    world.act(&Act::Start);
    // The first request that the new process receives is a repetition of the second one.
    world.act(&Act::Wait(1000));
    world.act(&Act::Wake(1));
    world.act(&Act::Run(20));
    assert!(world.is_held());
    let first = usize::from(world.is_held_by(1));
    world.act(&Act::Release(first));
    world.act(&Act::Run(3));
    assert!(world.is_held_by(1 - first));
}

#[test]
fn a_process_that_starts_while_a_barrier_is_held_waits() {
    let mut world = World::new();
    world.act(&Act::Run(20));
    world.act(&Act::Acquire(0));
    world.act(&Act::Run(2));
    world.act(&Act::Start);
    world.act(&Act::Run(30));
    assert!(world.is_held(), "and does not end the barrier");
    world.act(&Act::Begin(2));
    assert!(world.processes[2].steps.is_empty());
}

#[test]
fn a_process_that_missed_messages_repeats_its_steps_and_waits_as_one_that_starts() {
    let mut world = World::new();
    world.act(&Act::Run(20));
    world.act(&Act::Begin(0));
    let process = &mut world.processes[0];
    process
        .protocol
        .receive(ControlMessage::Missed, &mut process.members, world.now);
    world.advance(0);
    world.act(&Act::Run(5));
    world.act(&Act::Store(0));
    assert!(world.processes[0].steps.is_empty(), "of an earlier epoch");
    world.act(&Act::Begin(0));
    assert!(world.processes[0].steps.is_empty(), "still waits");
    world.act(&Act::Run(7));
    world.act(&Act::Begin(0));
    assert_eq!(world.processes[0].steps.len(), 1);
}

#[test]
fn a_process_that_received_nothing_for_long_and_missed_nothing_goes_on_at_once() {
    let mut world = World::new();
    world.act(&Act::Run(20));
    world.act(&Act::Begin(0));
    // The topic is away: longer than a step may store.
    world.act(&Act::Wait(60_000));
    world.act(&Act::Run(2));
    world.act(&Act::Store(0));
    assert!(world.processes[0].steps.is_empty(), "of an earlier epoch");
    world.act(&Act::Begin(0));
    assert_eq!(world.processes[0].steps.len(), 1);
}
