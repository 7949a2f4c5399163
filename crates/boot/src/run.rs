//! Starts the keepers of all services, and stops them in reverse.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::board::Board;
use crate::folder::{self, Folder};
use crate::hold::{self, Watched};
use crate::keep::{Keeper, Order, Signs};
use crate::lock::BootLock;
use crate::log::{self, Log};
use crate::print::Printer;
use crate::signals::{Signalled, Signals};
use crate::{BootError, Plan};

/// How boot came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// By the first signal: every service had its grace.
    InOrder,
    /// By a second one, with this number: every service was killed.
    AtOnce(i32),
}

/// Keeps the services of the plan alive until SIGINT or SIGTERM. The first signal stops them in reverse order, a
/// second kills them at once. At SIGHUP `on_hangup` is called, then the signal is passed on to all services. To be run
/// on the main thread, by a runtime without others.
pub async fn run(plan: Plan, mut on_hangup: impl FnMut()) -> Result<Stopped, BootError> {
    plan.check()?;
    let folder = Folder::new(&plan.run);
    folder::make(folder.path()).map_err(BootError::at("make the folder", folder.path()))?;
    folder::make(&plan.log).map_err(BootError::at("make the folder", &plan.log))?;
    let mut signals = Signals::listen().map_err(BootError::Signals)?;
    let _lock = BootLock::take(&folder).await?;
    let board = Board::new(&plan);
    board
        .write(&folder)
        .map_err(BootError::at("write", &folder.status()))?;

    let logs = logs(&plan);
    let printer = printer(&plan, &logs)?;
    let Crew {
        mut keepers,
        orders,
        hangups,
        watched,
    } = Crew::of(&plan, &board, &logs);

    // All that runs beside the keepers. None of it ends by itself, and all of it ends with this set.
    let mut beside = JoinSet::new();
    beside.spawn(board.clone().keep_written(folder.clone()));
    beside.spawn(hold::watch(folder.clone(), watched));
    beside.spawn(log::put_aside_when_large(logs));

    let broken = loop {
        tokio::select! {
            signal = signals.next() => match signal {
                Signalled::Stop(signal) => {
                    tracing::info!("signal {signal}: stopping all services; a second signal stops them at once");
                    break None;
                }
                Signalled::HangUp => {
                    tracing::info!("SIGHUP: passing it on to all services");
                    on_hangup();
                    hangups.send_modify(|count| *count += 1);
                }
            },
            // Nobody told a keeper to end, so this is a mistake of ours. Its service is no longer kept alive, and a
            // node that cannot keep its word should stop and be seen to.
            ended = keepers.join_next() => break ended.and_then(Result::err),
            Some(ended) = beside.join_next() => break ended.err(),
        }
    };
    let stopped = tokio::select! {
        () = stop_in_order(&orders) => Stopped::InOrder,
        signal = signals.next_stop() => {
            tracing::warn!("signal {signal}: killing all services");
            for order in &orders {
                order.send_replace(Order::Kill);
            }
            for order in &orders {
                order.closed().await;
            }
            Stopped::AtOnce(signal)
        }
    };
    beside.shutdown().await;
    if let Err(error) = board.write(&folder) {
        tracing::warn!("could not write {}: {error}", folder.status().display());
    }
    if let Some(printer) = printer {
        printer.finish();
    }
    match broken {
        Some(error) => Err(BootError::Keeper(error)),
        None => Ok(stopped),
    }
}

/// The last one started is stopped first, so that none loses what it needs while it still works.
async fn stop_in_order(orders: &[watch::Sender<Order>]) {
    for order in orders.iter().rev() {
        order.send_replace(Order::Stop);
        // Closed when its keeper has ended, and dropped its end.
        order.closed().await;
    }
}

/// Keepers at work, and the ends by which they are spoken to.
struct Crew {
    keepers: JoinSet<()>,
    /// In the order of the services.
    orders: Vec<watch::Sender<Order>>,
    /// How many SIGHUPs there were.
    hangups: watch::Sender<u64>,
    watched: Vec<Watched>,
}

impl Crew {
    fn of(plan: &Plan, board: &Board, logs: &[Arc<Log>]) -> Crew {
        let mut crew = Crew {
            keepers: JoinSet::new(),
            orders: Vec::new(),
            hangups: watch::Sender::new(0),
            watched: Vec::new(),
        };
        let mut readies: Vec<(&str, watch::Receiver<bool>)> = Vec::new();
        for (index, (service, log)) in plan.services.iter().zip(logs).enumerate() {
            let needed = service.needs.as_deref().and_then(|needs| {
                let found = readies.iter().find(|(name, _)| *name == needs);
                found.map(|(_, ready)| ready.clone())
            });
            let (ready, is_ready) = watch::channel(false);
            readies.push((&service.name, is_ready));
            let (order, orders) = watch::channel(Order::Keep);
            crew.orders.push(order);
            let (held, is_held) = watch::channel(false);
            crew.watched.push(Watched {
                service: service.name.clone(),
                held,
                line: board.line(index),
            });
            let keeper = Keeper {
                service: service.clone(),
                settings: plan.settings,
                folder: Folder::new(&plan.run),
                log: Arc::clone(log),
                line: board.line(index),
                signs: Signs {
                    order: orders,
                    hangups: crew.hangups.subscribe(),
                    held: is_held,
                    needed,
                    ready,
                },
            };
            crew.keepers.spawn(keeper.run());
        }
        crew
    }
}

fn logs(plan: &Plan) -> Vec<Arc<Log>> {
    let settings = &plan.settings;
    plan.services
        .iter()
        .map(|service| {
            let path = plan.log.join(format!("{}.log", service.name));
            Arc::new(Log::new(path, settings.log_size, settings.log_keep))
        })
        .collect()
}

fn printer(plan: &Plan, logs: &[Arc<Log>]) -> Result<Option<Printer>, BootError> {
    let tails: Vec<_> = plan
        .services
        .iter()
        .zip(logs)
        .filter(|(service, _)| plan.prints(&service.name))
        .map(|(service, log)| (service.name.clone(), log.follow()))
        .collect();
    match tails.is_empty() {
        true => Ok(None),
        false => Printer::start(tails).map(Some).map_err(BootError::Printer),
    }
}
