//! Messages that share the links of a network: how long a round of them takes.
//!
//! A fluid model. A message waits for the latency of its route, then flows over all its links at one rate. At any
//! moment the rates of active messages are the weighted max-min fair ones: no rate can grow without taking from a
//! message whose rate over weight is not larger. Rates change only where a message starts to flow or ends, so time
//! moves from one such event to the next.
//!
//! A pattern is a list of rounds; a round starts when all messages of the round before have ended.
//!
//! Source of the model: Velho, Schnorr, Casanova, Legrand, "On the validity of flow-level TCP network
//! models for grid and cloud simulations", ACM TOMACS 23(4), 2013 (`SimGrid`'s CM02 and its successors).

use crate::Error;
use crate::error::{every, is_amount, length};

/// The rest of a message that counts as ended, as a share of it: rounding, not bytes.
const ROUNDING: f64 = 1e-12;

/// Links of one direction each, and the links between each pair of hosts.
#[derive(Debug, Clone, Copy)]
pub struct Network<'a> {
    pub hosts: usize,
    /// Positive, one a link.
    pub link_bytes_per_s: &'a [f64],
    /// Not negative, one a link.
    pub link_latency_s: &'a [f64],
    /// `(hosts * hosts + 1,)`: the route from `s` to `t` is `route_link[route_start[s * hosts + t]..]`.
    pub route_start: &'a [i64],
    pub route_link: &'a [i64],
}

/// Messages in compressed sparse rows: `round_start[r]..round_start[r + 1]` are the messages of round `r`.
#[derive(Debug, Clone, Copy)]
pub struct Rounds<'a> {
    pub round_start: &'a [i64],
    pub source: &'a [i64],
    pub target: &'a [i64],
    /// Positive.
    pub bytes: &'a [f64],
}

/// How messages on one link share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Each gets the same rate.
    Equal,
    /// Rates are as one over the latency of the route: the round-trip unfairness of TCP, which
    /// `SimGrid` models too. Routes without latency share equally.
    ByLatency,
}

impl Sharing {
    /// The rule called `name`.
    ///
    /// # Errors
    /// An unknown name.
    pub fn by_name(name: &str) -> Result<Self, Error> {
        match name {
            "equal" => Ok(Sharing::Equal),
            "by-latency" => Ok(Sharing::ByLatency),
            _ => Err(Error::value("sharing", name, "messages share a link equal or by-latency")),
        }
    }
}

/// Seconds of each round.
///
/// # Errors
/// An array has the wrong length; a host or link does not exist; a message has no route or no
/// bytes; a rate is not positive; the accounts do not add up.
pub fn play_rounds(network: &Network<'_>, rounds: &Rounds<'_>, sharing: Sharing) -> Result<Vec<f64>, Error> {
    check(network, rounds)?;
    let mut seconds = Vec::with_capacity(rounds.round_start.len().saturating_sub(1));
    for (r, ends) in rounds.round_start.windows(2).enumerate() {
        let (Ok(first), Ok(last)) = (usize::try_from(ends[0]), usize::try_from(ends[1])) else {
            return Err(Error::value(format!("round_start[{r}]"), ends[0], "offsets rise from 0"));
        };
        let mut messages = Vec::with_capacity(last - first);
        for i in first..last {
            messages.push(message(network, rounds, i, sharing)?);
        }
        let elapsed = Round::new(network.link_bytes_per_s, &messages).run();
        within_capacity(network, &messages, elapsed)?;
        seconds.push(elapsed);
    }
    Ok(seconds)
}

struct Message<'a> {
    route: &'a [i64],
    bytes: f64,
    latency_s: f64,
    weight: f64,
}

fn message<'a>(network: &Network<'a>, rounds: &Rounds<'_>, i: usize, sharing: Sharing) -> Result<Message<'a>, Error> {
    let host = |what: &str, values: &[i64]| {
        usize::try_from(values[i])
            .ok()
            .filter(|&at| at < network.hosts)
            .ok_or_else(|| Error::value(format!("{what}[{i}]"), values[i], "a host's number is below the hosts"))
    };
    let (source, target) = (host("source", rounds.source)?, host("target", rounds.target)?);
    let pair = source * network.hosts + target;
    // The offsets were checked to rise within the links.
    let route = &network.route_link[network.route_start[pair] as usize..network.route_start[pair + 1] as usize];
    if route.is_empty() {
        let between = format!("message {i}");
        return Err(Error::value(between, format!("from {source} to {target}"), "no route leads there"));
    }
    let bytes = rounds.bytes[i];
    let latency_s: f64 = route.iter().map(|&link| network.link_latency_s[link as usize]).sum();
    let weight = match sharing {
        Sharing::ByLatency if latency_s > 0.0 => 1.0 / latency_s,
        _ => 1.0,
    };
    Ok(Message { route, bytes, latency_s, weight })
}

fn check(network: &Network<'_>, rounds: &Rounds<'_>) -> Result<(), Error> {
    let links = network.link_bytes_per_s.len();
    length("link_latency_s", network.link_latency_s.len(), links, "one element for each link")?;
    length("route_start", network.route_start.len(), network.hosts * network.hosts + 1, "one route a pair of hosts")?;
    let messages = rounds.source.len();
    length("target", rounds.target.len(), messages, "one element for each message")?;
    length("bytes", rounds.bytes.len(), messages, "one element for each message")?;
    rising("route_start", network.route_start, network.route_link.len())?;
    rising("round_start", rounds.round_start, messages)?;
    let positive = |value: f64| value > 0.0 && value.is_finite();
    every("bytes", rounds.bytes, "a message has bytes", positive)?;
    every("link_bytes_per_s", network.link_bytes_per_s, "a rate is a positive number", positive)?;
    every("link_latency_s", network.link_latency_s, "a latency is finite and not negative", is_amount)?;
    match network.route_link.iter().find(|&&link| usize::try_from(link).map_or(true, |at| at >= links)) {
        Some(&link) => Err(Error::value("route_link", link, "a route goes over links that are there")),
        None => Ok(()),
    }
}

fn rising(what: &str, offsets: &[i64], end: usize) -> Result<(), Error> {
    let rule = "offsets rise from 0 to the number of entries";
    let whole = offsets.first() == Some(&0) && offsets.last().map(|&last| usize::try_from(last)) == Some(Ok(end));
    if whole && offsets.windows(2).all(|pair| pair[0] <= pair[1]) {
        return Ok(());
    }
    Err(Error::value(what, format!("{:?} to {:?}", offsets.first(), offsets.last()), rule))
}

/// No link can have carried more than its rate allows.
fn within_capacity(network: &Network<'_>, messages: &[Message<'_>], elapsed: f64) -> Result<(), Error> {
    let mut carried = vec![0.0; network.link_bytes_per_s.len()];
    for message in messages {
        for &link in message.route {
            carried[link as usize] += message.bytes;
        }
    }
    for (bytes, rate) in carried.iter().zip(network.link_bytes_per_s) {
        if *bytes > elapsed * rate * (1.0 + 1e-9) {
            let (left, right) = (*bytes as i128, (elapsed * rate) as i128);
            return Err(Error::Conservation { what: "bytes over a link against its rate times the time", left, right });
        }
    }
    Ok(())
}

/// The messages of one round on their way.
struct Round<'a> {
    messages: &'a [Message<'a>],
    link_rate: &'a [f64],
    /// Links that a message goes over.
    used: Vec<usize>,
    /// Messages over each link.
    over: Vec<Vec<usize>>,
    remaining: Vec<f64>,
    rate: Vec<f64>,
    /// Room that is left on each link, and the weight and number of messages that share it.
    room: Vec<f64>,
    weight: Vec<f64>,
    sharers: Vec<usize>,
}

impl<'a> Round<'a> {
    fn new(link_rate: &'a [f64], messages: &'a [Message<'a>]) -> Self {
        let links = link_rate.len();
        let mut over = vec![Vec::new(); links];
        for (i, message) in messages.iter().enumerate() {
            for &link in message.route {
                over[link as usize].push(i);
            }
        }
        Self {
            messages,
            link_rate,
            used: (0..links).filter(|&link| !over[link].is_empty()).collect(),
            over,
            remaining: messages.iter().map(|message| message.bytes).collect(),
            rate: vec![0.0; messages.len()],
            room: vec![0.0; links],
            weight: vec![0.0; links],
            sharers: vec![0; links],
        }
    }

    /// Seconds until the last message has ended.
    fn run(mut self) -> f64 {
        // Latest first, so that the next to start is popped; ties in their order.
        let mut waiting: Vec<usize> = (0..self.messages.len()).collect();
        waiting.sort_by(|&a, &b| self.messages[b].latency_s.total_cmp(&self.messages[a].latency_s).then(b.cmp(&a)));
        let mut flowing: Vec<usize> = Vec::with_capacity(waiting.len());
        let mut now = 0.0_f64;
        loop {
            while let Some(&next) = waiting.last().filter(|&&next| self.messages[next].latency_s <= now) {
                waiting.pop();
                flowing.push(next);
            }
            let starts = waiting.last().map(|&next| self.messages[next].latency_s);
            if flowing.is_empty() {
                match starts {
                    Some(time) => now = time,
                    None => return now,
                }
                continue;
            }
            self.share(&flowing);
            let first_end = flowing.iter().map(|&i| self.remaining[i] / self.rate[i]).fold(f64::INFINITY, f64::min);
            let step = starts.map_or(first_end, |time| first_end.min(time - now));
            for &i in &flowing {
                self.remaining[i] -= self.rate[i] * step;
            }
            flowing.retain(|&i| self.remaining[i] > ROUNDING * self.messages[i].bytes);
            now = match starts {
                Some(time) if step < first_end => time,
                _ => now + step,
            };
        }
    }

    /// Weighted max-min rates: the tightest link fixes its messages, then the next among the rest.
    fn share(&mut self, flowing: &[usize]) {
        for &link in &self.used {
            (self.room[link], self.weight[link], self.sharers[link]) = (self.link_rate[link], 0.0, 0);
        }
        self.rate.fill(-1.0);
        for &i in flowing {
            self.rate[i] = 0.0; // on its way, not fixed
            for &link in self.messages[i].route {
                self.weight[link as usize] += self.messages[i].weight;
                self.sharers[link as usize] += 1;
            }
        }
        let mut open = flowing.len();
        while open > 0 {
            let mut tightest = (f64::INFINITY, 0);
            for &link in &self.used {
                if self.sharers[link] > 0 {
                    let level = self.room[link].max(0.0) / self.weight[link];
                    if level < tightest.0 {
                        tightest = (level, link);
                    }
                }
            }
            let (level, bottleneck) = tightest;
            for at in 0..self.over[bottleneck].len() {
                let i = self.over[bottleneck][at];
                if self.rate[i] != 0.0 {
                    continue;
                }
                let message = &self.messages[i];
                self.rate[i] = level * message.weight;
                open -= 1;
                for &link in message.route {
                    self.room[link as usize] -= self.rate[i];
                    self.weight[link as usize] -= message.weight;
                    self.sharers[link as usize] -= 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A star: host `i` sends over link `2 i` and receives over link `2 i + 1`.
    struct Star {
        hosts: usize,
        rate: Vec<f64>,
        latency: Vec<f64>,
        start: Vec<i64>,
        link: Vec<i64>,
    }

    impl Star {
        fn new(hosts: usize, rate: f64, latency: f64) -> Self {
            let (mut start, mut link) = (vec![0], Vec::new());
            for source in 0..hosts {
                for target in 0..hosts {
                    if source != target {
                        link.extend([2 * source as i64, 2 * target as i64 + 1]);
                    }
                    start.push(link.len() as i64);
                }
            }
            Self { hosts, rate: vec![rate; 2 * hosts], latency: vec![latency; 2 * hosts], start, link }
        }

        fn network(&self) -> Network<'_> {
            Network {
                hosts: self.hosts,
                link_bytes_per_s: &self.rate,
                link_latency_s: &self.latency,
                route_start: &self.start,
                route_link: &self.link,
            }
        }

        fn play(&self, messages: &[(i64, i64, f64)], sharing: Sharing) -> Result<f64, Error> {
            let source: Vec<_> = messages.iter().map(|m| m.0).collect();
            let target: Vec<_> = messages.iter().map(|m| m.1).collect();
            let bytes: Vec<_> = messages.iter().map(|m| m.2).collect();
            let round_start = [0, messages.len() as i64];
            let rounds = Rounds { round_start: &round_start, source: &source, target: &target, bytes: &bytes };
            play_rounds(&self.network(), &rounds, sharing).map(|seconds| seconds[0])
        }
    }

    fn all_to_all(sizes: &[f64]) -> Vec<(i64, i64, f64)> {
        let mut messages = Vec::new();
        for (source, &bytes) in sizes.iter().enumerate() {
            for target in 0..sizes.len() {
                if source != target && bytes > 0.0 {
                    messages.push((source as i64, target as i64, bytes));
                }
            }
        }
        messages
    }

    #[test]
    fn an_all_gather_in_a_star_takes_the_largest_share_to_all_others() {
        let star = Star::new(4, 2.0, 0.5);
        for sizes in [[8.0; 4], [8.0, 4.0, 4.0, 2.0], [6.0, 0.0, 0.0, 1.0]] {
            let largest = sizes.iter().copied().fold(0.0, f64::max);
            let got = star.play(&all_to_all(&sizes), Sharing::Equal).unwrap();
            let expected = 2.0 * 0.5 + 3.0 * largest / 2.0;
            assert!((got / expected - 1.0).abs() < 1e-12, "{sizes:?}: {got}, {expected} expected");
        }
    }

    #[test]
    fn a_message_gets_what_others_leave() {
        // 0 -> 2 and 1 -> 2 share the way into 2 (1 B/s each); 0 -> 1 gets the other half of the way out of 0, and
        // all of it from 4 s on, when 0 -> 2 has ended.
        let star = Star::new(3, 2.0, 0.0);
        let got = star.play(&[(0, 2, 4.0), (1, 2, 4.0), (0, 1, 8.0)], Sharing::Equal).unwrap();
        assert!((got - 6.0).abs() < 1e-12, "{got}");
    }

    #[test]
    fn routes_of_half_the_latency_get_twice_the_rate() {
        // Both go into 2; the way out of 1 has more latency: 1 s and 2 s in all. Alone until 2 s, message 0 -> 2 moves
        // 1 s * 3 B/s; then it has 2 B/s until its 9 bytes are through at 5 s, and 1 -> 2 has 1 B/s until then.
        let mut star = Star::new(3, 3.0, 0.5);
        star.latency[2] = 1.5;
        let messages = [(0, 2, 9.0), (1, 2, 9.0)];
        let by_latency = star.play(&messages, Sharing::ByLatency).unwrap();
        assert!((by_latency - (5.0 + 6.0 / 3.0)).abs() < 1e-12, "{by_latency}");
        // Shared equally the way into 2 is as busy, and the end the same.
        let equal = star.play(&messages, Sharing::Equal).unwrap();
        assert!((equal - 7.0).abs() < 1e-12, "{equal}");
    }

    #[test]
    fn rounds_follow_each_other() {
        let star = Star::new(3, 1.0, 0.25);
        let rounds =
            Rounds { round_start: &[0, 1, 1, 3], source: &[0, 1, 2], target: &[1, 2, 0], bytes: &[1.0, 2.0, 3.0] };
        assert_eq!(play_rounds(&star.network(), &rounds, Sharing::Equal).unwrap(), [1.5, 0.0, 3.5]);
    }

    #[test]
    fn what_cannot_be_played_is_named() {
        let star = Star::new(3, 1.0, 0.0);
        let message = |m| star.play(&[m], Sharing::Equal).unwrap_err().to_string();
        assert!(message((0, 3, 1.0)).contains("target[0] is 3"));
        assert!(message((-1, 0, 1.0)).contains("source[0] is -1"));
        assert!(message((1, 1, 1.0)).contains("no route leads there"));
        assert!(message((0, 1, 0.0)).contains("a message has bytes"));
        assert!(message((0, 1, f64::NAN)).contains("a message has bytes"));
        let mut stopped = Star::new(2, 1.0, 0.0);
        stopped.rate[1] = 0.0;
        assert!(stopped.play(&[(0, 1, 1.0)], Sharing::Equal).unwrap_err().to_string().contains("link_bytes_per_s[1]"));
        assert!(Sharing::by_name("fair").is_err());
        assert_eq!(Sharing::by_name("by-latency"), Ok(Sharing::ByLatency));
    }
}
