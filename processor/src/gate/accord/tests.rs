//! Processes with delayed words, pauses, kills and starts: no step is ever under way while a closer works.

use proptest::prelude::*;

use super::*;

/// What happens next. Numbers choose a process.
#[derive(Clone, Debug)]
enum Act {
    /// Time passes for all.
    Wait(u16),
    /// A process hears some of the words that it has not heard yet.
    Hear(usize, u8),
    /// It hears all, and does what it has to.
    Wake(usize),
    /// All of them do, for so many seconds.
    Run(u8),
    /// A step begins, if it may.
    Begin(usize),
    /// A step stores, if it may.
    Store(usize),
    /// A step ends.
    End(usize),
    /// It wants all gates closed.
    Close(usize),
    /// It opens what it closed.
    Open(usize),
    /// What it says from now on is not said before the next order of this kind.
    Mute(usize),
    /// It is killed.
    Kill(usize),
    /// Another one starts.
    Start,
}

fn any_act() -> impl Strategy<Value = Act> {
    let who = 0usize..4;
    prop_oneof![
        3 => (1u16..4000).prop_map(Act::Wait),
        3 => (who.clone(), 1u8..6).prop_map(|(who, words)| Act::Hear(who, words)),
        4 => who.clone().prop_map(Act::Wake),
        6 => (1u8..18).prop_map(Act::Run),
        4 => who.clone().prop_map(Act::Begin),
        4 => who.clone().prop_map(Act::Store),
        3 => who.clone().prop_map(Act::End),
        3 => who.clone().prop_map(Act::Close),
        2 => who.clone().prop_map(Act::Open),
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
    accord: Accord,
    /// The next word of the topic that it hears.
    next: usize,
    standing: Standing,
    steps: Vec<Step>,
    unsaid: Vec<Word>,
    is_mute: bool,
    gates: u32,
}

struct World {
    now: Instant,
    topic: Vec<Word>,
    processes: Vec<Process>,
    names: u32,
    /// Moments at which somebody worked behind the gate.
    works: usize,
    grants: usize,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            now: Instant::now(),
            topic: Vec::new(),
            processes: Vec::new(),
            names: 0,
            works: 0,
            grants: 0,
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
        let accord = Accord::new(format!("p{}", self.names), self.now);
        self.processes.push(Process {
            standing: accord.standing(self.now),
            accord,
            next: self.topic.len(),
            steps: Vec::new(),
            unsaid: Vec::new(),
            is_mute: false,
            gates: 0,
        });
    }

    /// What the keeper does after each event.
    fn settle(&mut self, who: usize) {
        let process = &mut self.processes[who];
        let is_drained = process.accord.is_closing() && process.steps.is_empty();
        process.accord.drained(is_drained, self.now);
        for effect in process.accord.effects() {
            if let Effect::Say(word) = effect {
                process.unsaid.push(word);
            }
        }
        if !process.is_mute {
            self.topic.append(&mut process.unsaid);
        }
        process.standing = process.accord.standing(self.now);
    }

    fn hear(&mut self, who: usize, words: usize) {
        for _ in 0..words {
            let process = &mut self.processes[who];
            let Some(word) = self.topic.get(process.next).cloned() else {
                break;
            };
            process.next += 1;
            process.accord.heard(word, self.now);
            self.settle(who);
        }
    }

    fn wake(&mut self, who: usize) {
        self.processes[who].accord.tick(self.now);
        self.settle(who);
        self.hear(who, usize::MAX);
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
            Act::Hear(who, words) => self.hear(place(who), usize::from(*words)),
            Act::Wake(who) => self.wake(place(who)),
            Act::Begin(who) => self.begin(place(who)),
            Act::Store(who) => self.store(place(who)),
            Act::End(who) => {
                self.processes[place(who)].steps.pop();
                self.settle(place(who));
            }
            Act::Close(who) => {
                let process = &mut self.processes[place(who)];
                process.gates += 1;
                let gate = format!("{}-{}", process.accord.process, process.gates);
                if process.accord.mine.is_none() {
                    process.accord.close(gate, self.now);
                }
                self.settle(place(who));
            }
            Act::Open(who) => {
                self.processes[place(who)].accord.open(Outcome::Nothing);
                self.settle(place(who));
            }
            Act::Mute(who) => {
                let process = &mut self.processes[place(who)];
                process.is_mute = !process.is_mute;
                self.settle(place(who));
            }
            Act::Kill(who) => {
                self.processes.remove(place(who));
            }
        }
        self.work();
    }

    /// What was shown when it was last awake counts: the workers look at nothing else.
    fn begin(&mut self, who: usize) {
        let works = self.works;
        let process = &mut self.processes[who];
        let passes = process.standing.passes_until;
        if passes.is_some_and(|until| self.now < until) && !process.accord.is_closing() {
            process.steps.push(Step {
                epoch: process.standing.epoch,
                works,
            });
        }
    }

    fn store(&mut self, who: usize) {
        let granted = self.granted();
        let process = &mut self.processes[who];
        let standing = process.standing;
        // A step of an earlier epoch finds out, and is done anew.
        process.steps.retain(|step| step.epoch == standing.epoch);
        if standing.writes_until.is_some_and(|until| self.now < until) {
            for step in &process.steps {
                assert!(
                    !granted,
                    "a step stores while somebody works behind the gate"
                );
                assert_eq!(step.works, self.works, "a step stores what it read before");
            }
        }
        self.settle(who);
    }

    fn granted(&self) -> bool {
        let mut granted = self
            .processes
            .iter()
            .map(|process| process.accord.granted());
        granted.any(|granted| granted.is_some_and(|(_, until)| self.now < until))
    }

    /// Whoever may work does.
    fn work(&mut self) {
        if self.granted() {
            self.works += 1;
            self.grants += 1;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_step_is_under_way_while_a_closer_works_whatever_is_late_paused_or_killed(
        acts in proptest::collection::vec(any_act(), 1..120)
    ) {
        let mut world = World::new();
        world.act(&Act::Run(17));
        acts.iter().for_each(|act| world.act(act));
        // Whatever happened, it goes on: a closing is answered, and steps pass.
        (0..world.processes.len()).for_each(|who| {
            world.processes[who].is_mute = false;
            world.processes[who].steps.clear();
            world.processes[who].accord.open(Outcome::Nothing);
            world.settle(who);
        });
        world.act(&Act::Run(90));
        for process in &world.processes {
            prop_assert!(process.standing.passes_until.is_some_and(|until| world.now < until));
        }
        if !world.processes.is_empty() {
            world.act(&Act::Close(0));
            world.act(&Act::Run(3));
            prop_assert!(world.granted());
        }
    }
}

#[test]
fn a_closer_that_dies_leaves_the_gate_open_after_a_while() {
    let mut world = World::new();
    world.act(&Act::Run(20));
    world.act(&Act::Close(0));
    world.act(&Act::Run(2));
    assert!(world.granted());
    world.act(&Act::Kill(0));
    world.act(&Act::Run(5));
    world.act(&Act::Begin(0));
    assert!(world.processes[0].steps.is_empty(), "closed");
    world.act(&Act::Run(7));
    world.act(&Act::Begin(0));
    assert_eq!(world.processes[0].steps.len(), 1);
}

#[test]
fn two_closers_take_turns() {
    let mut world = World::new();
    world.act(&Act::Run(20));
    world.act(&Act::Close(0));
    world.act(&Act::Close(1));
    world.act(&Act::Run(3));
    let granted = |world: &World, who: usize| {
        let until = world.processes[who].accord.granted();
        until.is_some_and(|(_, until)| world.now < until)
    };
    assert!(granted(&world, 0) && !granted(&world, 1));
    world.act(&Act::Open(0));
    world.act(&Act::Run(3));
    assert!(granted(&world, 1));
}

#[test]
fn a_process_that_starts_while_the_gate_is_closed_waits() {
    let mut world = World::new();
    world.act(&Act::Run(20));
    world.act(&Act::Close(0));
    world.act(&Act::Run(2));
    world.act(&Act::Start);
    world.act(&Act::Run(30));
    assert!(
        world.granted(),
        "and does not keep the closer from its work"
    );
    world.act(&Act::Begin(2));
    assert!(world.processes[2].steps.is_empty());
}
