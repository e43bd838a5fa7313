// The result in words: the sentence, the cards, the table, and what to take along.
import { $, atLeast, atMost, bold, el, ofHundred, ofPeople, percent, short, whole } from './common.js';
import { icons } from './charts.js';
import { isSurvey, isText, state } from './state.js';

export const TRUST = {
  nobody: 'nobody', shuffling: 'a shuffler that mixes', 'shuffler-noise': 'a shuffler that adds fakes',
};

function trustOf(one) {
  if (isText()) return 'a shuffler that blurs counts, and a relay';
  return one.trust === 'shuffling' && one.clear ? 'a shuffler that mixes, and users who add fakes' : TRUST[one.trust];
}

/** A bound as it was typed: three digits of a year would be another year. */
const exactly = (value) => (Math.abs(value) >= 1e15 || (value && Math.abs(value) < 1e-6) ? String(value) : value.toLocaleString('en', { maximumFractionDigits: 20 }));

function asks() {
  const each = {
    one: `give one of ${whole(state.d)} answers`, few: `give at most ${whole(Math.min(state.k, state.d))} of ${whole(state.d)} answers`,
    any: `answer yes or no to ${whole(state.d)} items`, number: `give a number from ${exactly(state.low)} to ${exactly(state.high)}`,
    strings: `each send a text of at most ${whole(state.bytes)} bytes`,
    several: `answer ${state.questions.length === 1 ? '1 question' : `${state.questions.length} questions`}`,
  }[state.kind];
  return state.rounds > 1 ? `${each}, ${whole(state.rounds)} times` : each;
}

const margin = (question) => `±\u00a0${short(question.margin)}${question.unit ? `\u00a0${question.unit}` : ''}`;

function precisionWords(one) {
  if (isText()) {
    return ['A text of ', bold(`${whole(one.shown[1])}\u00a0people`), ` is shown in 95 of 100 collections, one of ${whole(one.shown[0])} people in 50; the count of a text that is shown is right to within `,
      bold(`±\u00a0${ofPeople(one.margin)}\u00a0people`)];
  }
  if (!isSurvey()) return ['Each count is right to within ', bold(`±\u00a0${ofPeople(one.margin)}\u00a0people`)];
  const [first] = one.questions, what = first.measures === 'the mean' ? 'The mean' : first.measures === 'one count' ? 'Each count' : 'The number of people below any threshold';
  const where = one.questions.length > 1 ? ` of “${first.name}”` : '';
  return [`${what}${where} is right to within `, bold(margin(first))];
}

/** True if the results would say nothing about any of the questions. */
const hopeless = (one) => (isSurvey() ? one.questions.every((each) => each.hopeless) : one.margin >= state.n || (isText() && one.shown[1] > state.n));

function why(one) {
  if (isText() && one.shown[1] > state.n) return `a text is shown only if about ${whole(one.shown[1])} people send it`;
  const error = isSurvey() ? margin(one.questions[0]) : `±\u00a0${ofPeople(one.margin)} people`;
  return `the error, ${error}, is about as large ${isSurvey() ? 'as what it measures' : 'as the crowd'}`;
}

/** Keep the height of sentence and cards while a plan is being certified: what is below must not jump up and down again. */
export function steady(waiting) {
  for (const id of ['verdict', 'cards']) $(id).style.minHeight = waiting ? `${$(id).offsetHeight}px` : '';
}

/** The sentence for a certified plan, or for an estimate that says that it is one. */
export function verdict(one, { about, late, missed, problem }) {
  const head = [bold(`${whole(state.n)} people`), ` ${asks()}. `];
  if (!one) {
    const told = problem !== null ? ['The question needs a correction first.'] : isText() && state.trust !== 'shuffler-noise' ? ['Texts that nobody listed need a shuffler that blurs their counts: choose “a shuffler that also adds fakes” under “Whom you trust”.'] : !about && late ? ['Nothing was certified in time. Use hubbub plan on the command line, which has no time limit.'] : !about ? ['No protocol meets this: more people, a larger ε, fewer rounds or more trust may help.']
      : isSurvey() ? ['Its precision is being certified…'] : [`The error is about ±\u00a0${ofPeople(about.about)} people; it is being certified…`];
    $('verdict').replaceChildren(...head, ...told);
  } else if (hopeless(one)) {
    $('verdict').replaceChildren(...head, bold('Nothing can be learnt: '), `${why(one)}. Try more people, a larger ε or fewer rounds.`);
  } else {
    const right = ofHundred(one.guess);
    const rests = one.trust === 'nobody' ? ['The protection rests on ', bold('nobody else'), '.'] : ['The protection rests on ', bold(trustOf(one)), '.'];
    $('verdict').replaceChildren(...head, ...precisionWords(one), ' in 95 of 100 collections. Whoever sees the results and guesses between two answers of one person is right in at most ',
      bold(`${right} of 100`), ' cases; a coin toss in 50. ', ...rests, late ? ' Protocols that may be more precise are not certified yet.' : '',
      missed ? ` You chose “${missed}”, which is not certified; the most precise of the others is shown.` : '');
  }
  $('verdict').classList.toggle('busy', !one && problem === null);
  $('remarks').replaceChildren(...(one?.remarks ?? []).map((text) => el('li', { textContent: text })));
}

export function cards(one, about, central) {
  for (const id of ['c-margin', 'c-guess', 'c-trust']) $(id).classList.toggle('about', !one);
  if (!one) {
    $('c-margin').textContent = about && !isSurvey() ? `≈ ${ofPeople(about.about)} people` : '–';
    $('c-margin-text').replaceChildren(el('p', { textContent: about && !isSurvey() ? 'A quick estimate, not certified.' : '' }));
    $('c-guess').textContent = '–';
    $('c-guess-text').textContent = about ? 'Being certified…' : '';
    $('icons').replaceChildren();
    $('c-trust').textContent = '–';
    $('c-trust-text').replaceChildren();
    $('peek').textContent = about ? 'being certified…' : 'no protocol meets this';
    return;
  }
  const right = ofHundred(one.guess);
  marginCard(one, central);
  $('c-guess').textContent = `≤ ${right} of 100`;
  const loss = one.epsilon === null ? 'unlimited' : atMost(one.epsilon);
  const share = state.rounds > 1 ? `ε\u00a0=\u00a0${loss} for all ${whole(state.rounds)} rounds (${one.round === null ? 'unlimited' : atMost(one.round)} for one)` : `ε\u00a0=\u00a0${loss}`;
  $('c-guess-text').textContent = `right, for somebody who knows everybody else’s answer and guesses between two answers of one person. A coin toss is right 50 times. ${one.basis === 'exact' ? 'Exact' : 'Proven'}: ${share}, δ\u00a0=\u00a0${one.delta === 0 ? '0' : `1 in ${atLeast(1 / one.delta)}`}.`;
  icons($('icons'), right);
  $('c-trust').textContent = one.trust === 'nobody' ? 'nobody else' : isText() ? 'shuffler and relay' : one.trust === 'shuffling' && one.clear ? 'shuffler and users' : 'the shuffler';
  $('c-trust-text').replaceChildren(...parties(one).map(([kind, text]) => el('li', { className: kind, textContent: text })));
  const size = isSurvey() ? margin(one.questions[0]) : `± ${ofPeople(one.margin)} people`;
  $('peek').textContent = `${size} · ≤ ${right} of 100 guesses · rests on ${$('c-trust').textContent}`;
}

const SAMPLING = ' If these people are a sample, sampling error comes on top.';

function marginCard(one, central) {
  if (isSurvey()) {
    $('c-margin').textContent = margin(one.questions[0]);
    const rows = one.questions.flatMap((each) => [el('dt', { textContent: `${each.name}: ${each.measures}` }), el('dd', { textContent: margin(each) })]);
    $('c-margin-text').replaceChildren(el('dl', {}, ...rows), el('p', { textContent: `In 95 of 100 collections, with “${one.name}”.${SAMPLING}` }));
    return;
  }
  const least = one.margin > 0 ? Math.max(10 * one.margin, 1) : 0; // an answer that nobody gives is not known to within a tenth
  const share = (isText() ? Math.max(least, one.shown[1]) : least) / state.n, lone = isText() ? ` A text of one person is shown at most 1 time in ${atLeast(1 / one.delta)}.` : '';
  const finer = one.preliminary ? ' A slightly more precise plan is being certified.' : '';
  const known = share === 0 ? 'That often, noise changes no count at all.' : share > 1 ? 'No answer is known to within a tenth of its value.' : `Answers that at least ${atMost(100 * share)}\u00a0% of the people give are known to within a tenth of their value.`;
  const server = central === null ? '' : ` A trusted server with the usual noise: ±\u00a0${ofPeople(central)}.`;
  $('c-margin').textContent = `± ${ofPeople(one.margin)} people`;
  $('c-margin-text').replaceChildren(el('p', { textContent: `on each count, in 95 of 100 collections, with “${one.name}”. ${known}${lone}${server}${SAMPLING}${finer}` }));
}

function parties(one) {
  if (isText()) {
    return [['no', 'If the shuffler and the analyzer collude, they know all texts, but not whose they are.'], ['no', 'If the shuffler and the relay collude, they know who sent equal texts.'],
      ['ok', 'The attacker may control everybody else.'], ['ok', 'Whatever the analyzer does with the results alone, the protection holds.']];
  }
  const together = !one.shuffler ? ['ok', 'The shuffler and the analyzer may collude.']
    : one.collusion_epsilon === null || one.collusion_guess > 0.9995 ? ['no', 'If the shuffler and the analyzer collude, they can learn every answer.']
      : ['no', `If the shuffler and the analyzer collude, up to ${percent(one.collusion_guess)} of their guesses are right.`];
  const others = !one.shuffler || one.honest <= 1 ? ['ok', 'The attacker may control everybody else.']
    : one.honest < state.n ? ['ok', `The attacker may control ${whole(state.n - one.honest)} people, but no more.`]
      : ['no', 'All people must follow the protocol. The slider “Users the attacker controls” allows for some who do not.'];
  return [together, others, ['ok', 'Whatever the analyzer does with the results alone, the protection holds.'], ['', `One device: ${one.votes}.`]];
}

const colluding = (one) => (isText() ? '100 %, with the relay' : !one.shuffler ? 'no shuffler needed' : one.collusion_epsilon === null ? '100 %' : percent(one.collusion_guess));

function cells(one) {
  return [
    el('td', { className: 'num', textContent: isSurvey() ? margin(one.questions[0]) : `± ${ofPeople(one.margin)}` }),
    el('td', { className: 'num', textContent: one.messages === null ? '–' : whole(one.messages) }),
    el('td', { className: 'num', textContent: one.bytes === null ? 'not offered' : whole(one.bytes) }),
    el('td', { className: 'num', textContent: colluding(one) }),
    el('td', { textContent: one.joint ? 'yes' : 'no' }),
  ];
}

const REASONS = { late: 'not certified in time; use hubbub plan on the command line', failed: 'could not be computed' };

function waiting(family, one, more) {
  const text = !one || (more && one.state === 'late') ? `being certified…${one ? ' this takes longer' : ''}` : REASONS[one.state] ?? `not possible here: ${one.reason}`;
  const error = el('td', { className: 'num', textContent: (one && one.state !== 'late') || family.about === null || isSurvey() ? '' : `≈ ${ofPeople(family.about)}` });
  return [error, el('td', { className: 'why', colSpan: 4, textContent: text })];
}

/** What the margins of the table are of: of a survey, its first question. */
function measured() {
  if (state.kind === 'several') return `“${state.questions[0].name}”`;
  return state.kind !== 'number' ? 'each count' : state.measure === 'mean' ? 'the mean' : 'people below a threshold';
}

export function table(families, found, chosen, more, pick) {
  $('within').textContent = `${measured()} within (95 of 100)`;
  const size = (one) => found[one.family]?.curve ?? one.about ?? Infinity;
  const rows = [...families].sort((a, b) => size(a) - size(b));
  const focused = document.activeElement?.name === 'family' ? document.activeElement.value : null;
  document.querySelector('#table tbody').replaceChildren(...rows.map((family) => {
    const one = found[family.family], ok = one?.state === 'certified';
    const radio = el('input', { type: 'radio', name: 'family', value: family.family, checked: chosen?.family === family.family, disabled: !ok || one.preliminary || !family.allowed });
    radio.addEventListener('change', () => pick(family.family));
    const beyond = !family.allowed;
    const trust = el('td', { className: `t-${family.trust}`, textContent: ` ${trustOf(family)}${beyond ? ' (not allowed)' : ''}` });
    return el('tr', { className: [radio.checked ? 'chosen' : '', ok ? '' : 'pending', beyond ? 'beyond' : ''].filter(Boolean).join(' ') },
      el('td', {}, el('label', {}, radio, ok ? one.name : family.name)), trust, ...(ok ? cells(one) : waiting(family, one, more)));
  }));
  const without = rows.map((family) => found[family.family]).filter((one) => one?.state === 'certified' && one.bytes === null);
  $('not-offered').replaceChildren(...without.map((one) => el('li', { textContent: `The services do not offer “${one.name}”: ${one.not_offered}.` })));
  if (focused) document.querySelector(`[name=family][value="${focused}"]`)?.focus();
}

export function status(families, found, more) {
  const done = families.filter((one) => found[one.family] && !found[one.family].preliminary), certified = done.filter((one) => found[one.family].state === 'certified');
  const late = done.filter((one) => found[one.family].state === 'late').length;
  if (!families.length) {
    $('status').textContent = '';
    return;
  }
  if (done.length < families.length || more) $('status').textContent = `${done.length - (more ? late : 0)} of ${families.length} protocols are done…`;
  else $('status').textContent = `${certified.length} of ${families.length} protocols are certified for ε = ${state.eps}, δ = 1e-${state.delta}.${late ? ` ${late} took too long.` : ''}`;
}
