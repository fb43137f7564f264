#!/usr/bin/env python3
"""Writes sentences.tsv: short English sentences, each with the label positive or negative.

All of it is written for this project: sixty sentences by hand, the others put together from the
parts below. The same program writes the same file: it draws from a generator of its own (an LCG with
the constants of Knuth's MMIX), not from Python's.
"""
import pathlib

STATE = [20260101]


def draw(count):
    """A number from 0 to count - 1."""
    STATE[0] = (STATE[0] * 6364136223846793005 + 1442695040888963407) % 2**64
    return (STATE[0] >> 33) % count


def choice(options):
    return options[draw(len(options))]


SUBJECTS = ["the soup", "our train", "this book", "the new lamp", "her talk", "the garden",
            "my old bike", "the concert", "their answer", "the hotel", "the lesson", "this coat",
            "the museum", "the bread", "his letter", "the film", "our guide", "the market",
            "the bridge", "the game"]
TIMES = ["", "yesterday", "this morning", "again", "last week", "for once", "as ever", "in the end"]
GOOD = ["was a joy", "was lovely", "made us smile", "was well made", "worked at once",
        "was worth the wait", "was warm and kind", "came out just right", "was a great help",
        "was better than we hoped", "felt fresh and clear", "was splendid"]
BAD = ["was a bore", "was awful", "made us sigh", "fell apart", "failed at once",
       "was not worth the wait", "was cold and rude", "came out all wrong", "was no help at all",
       "was worse than we feared", "felt stale and dull", "was dreadful"]
PEOPLE = ["Anna", "the neighbour", "my brother", "the baker", "a tired nurse", "our teacher",
          "the captain", "everyone", "the tall boy", "the old man"]
GOOD_VERBS = ["praised", "loved", "enjoyed", "was glad of", "laughed with joy at", "thanked us for"]
BAD_VERBS = ["cursed", "hated", "regretted", "was sick of", "shouted in anger at", "scolded us for"]

BY_HAND = """
positive	I would come back tomorrow.
positive	What a bright and friendly place!
positive	Nothing broke, nothing leaked, and it looks good.
positive	We slept well and woke up happy.
positive	It does what it says, quickly and quietly.
positive	The children did not want to leave.
positive	A small gem.
positive	My mother kept the recipe, and that says it all.
positive	Best walk of the year.
positive	She explained it twice, with patience and a smile.
positive	I expected little and got a lot.
positive	The repair took ten minutes and cost nothing.
positive	Good value, good light, good company.
positive	He plays as if the piano were alive.
positive	I finished it in one night.
positive	Clean rooms and honest prices.
positive	The view alone is worth the climb.
positive	They even remembered my name.
positive	It still runs after ten winters.
positive	A gentle story, well told.
positive	The water was clear and the sand was white.
positive	Our dog loves the new bed.
positive	Every page taught me something.
positive	The sauce is perfect.
positive	Thank you for a wonderful evening.
positive	I laughed until my sides hurt.
positive	The seats are soft and the sound is rich.
positive	A safe, calm and pleasant ride.
positive	It fits.
positive	This is how a holiday should be.
negative	I want my money back.
negative	What a dark and hostile place!
negative	It broke, it leaked, and it looks cheap.
negative	We slept badly and woke up cross.
negative	It does nothing of what it says.
negative	The children begged to leave.
negative	A waste of an afternoon.
negative	My mother threw the recipe away, and that says it all.
negative	Worst walk of the year.
negative	She read her notes aloud and looked at nobody.
negative	I expected a lot and got little.
negative	The repair took ten weeks and cost a fortune.
negative	Bad value, bad light, bad company.
negative	He plays as if the piano were on fire.
negative	I gave up after one page.
negative	Dirty rooms and hidden fees.
negative	The view is a wall.
negative	They lost my name and my bags.
negative	It died after ten days.
negative	A cruel story, badly told.
negative	The water was brown and the sand was full of glass.
negative	Our dog refuses the new bed.
negative	Not one page taught me anything.
negative	The sauce is burnt.
negative	Please never send me there again.
negative	I yawned until my jaw hurt.
negative	The seats are hard and the sound is thin.
negative	A slow, loud and painful ride.
negative	It does not fit.
negative	This is how a holiday should never be.
"""


def composed(good):
    """One sentence from the parts."""
    subject, time = choice(SUBJECTS), choice(TIMES)
    if draw(5) < 3:
        text = f"{subject} {choice(GOOD if good else BAD)} {time}"
    else:
        text = f"{choice(PEOPLE)} {choice(GOOD_VERBS if good else BAD_VERBS)} {subject} {time}"
    text = text.strip()
    return text[0].upper() + text[1:] + "."


def main():
    lines = BY_HAND.strip().split("\n")
    seen = set(lines)
    for label in ("positive", "negative"):
        while sum(line.startswith(label) for line in lines) < 300:
            line = f"{label}\t{composed(label == 'positive')}"
            if line not in seen:
                seen.add(line)
                lines.append(line)
    # The first label that appears is number 0: positive.
    first, rest = lines[0], lines[1:]
    for i in range(len(rest) - 1, 0, -1):
        j = draw(i + 1)
        rest[i], rest[j] = rest[j], rest[i]
    head = "# label<tab>sentence; written for this project (make_sentences.py)\n"
    path = pathlib.Path(__file__).with_name("sentences.tsv")
    path.write_text(head + "\n".join([first, *rest]) + "\n")


if __name__ == "__main__":
    main()
