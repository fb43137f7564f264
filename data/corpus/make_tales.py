#!/usr/bin/env python3
"""Writes tales.txt: short tales in plain English, put together from the sentences below.

All of it is written for this project. The same program writes the same text: it draws from a
generator of its own (an LCG with the constants of Knuth's MMIX), not from Python's.
"""
import pathlib

STATE = [20260101]


def draw(options):
    STATE[0] = (STATE[0] * 6364136223846793005 + 1442695040888963407) % 2**64
    return options[(STATE[0] >> 33) % len(options)]


HEROES = [("the miller", "he", "his"), ("the weaver", "she", "her"), ("the ferryman", "he", "his"),
          ("the old teacher", "she", "her"), ("a young sailor", "he", "his"),
          ("the baker's daughter", "she", "her"), ("the clockmaker", "he", "his"),
          ("the shepherd", "he", "his"), ("a travelling singer", "she", "her"),
          ("the keeper of the lighthouse", "he", "his"), ("the gardener", "she", "her"),
          ("the youngest of three sisters", "she", "her"), ("a retired captain", "he", "his"),
          ("the glassblower", "she", "her"), ("the apprentice", "he", "his")]
PLACES = ["the village", "the harbour", "the valley", "the market square", "the old mill",
          "the edge of the forest", "the stone bridge", "the upper meadow", "the long road",
          "the river", "the orchard", "the northern gate", "the quiet end of the street"]
TIMES = ["One morning in early spring", "On the first cold evening of autumn", "Late in the summer",
         "The day after the fair", "In the year of the great flood", "When the snow had melted",
         "Shortly before dawn", "At noon on a market day", "Long before the railway came",
         "In the week when the bells were mended", "On a night without a moon"]
THINGS = ["a small brass key", "a letter without a name", "a lantern that would not burn",
          "a map drawn in green ink", "a basket of winter apples", "a silver coin with a hole in it",
          "a broken compass", "a book with empty pages", "a violin without strings",
          "a jar of dark honey", "a wooden bird", "a rope of seven colours", "a bag of seed",
          "a clock that ran backwards"]
FINDERS = ["a stranger with muddy boots", "a child who spoke very little", "the postman",
           "an old woman from across the water", "a man with two hats", "a tired soldier",
           "a merchant on a grey horse", "the magistrate", "a girl with a tame crow",
           "a fisherman nobody knew"]
WEATHER = ["The wind came from the sea and smelled of salt.", "It had rained for three days.",
           "The air was so still that one could hear the bees.", "Fog lay over the fields.",
           "The sky was clear and the shadows were long.", "Frost had drawn ferns on the windows.",
           "A warm wind moved the barley like water.", "Clouds stood over the hills and waited."]
WANTS = ["to cross the mountains before the first snow", "to learn what the old song meant",
         "to pay a debt that nobody remembered", "to build a house with a blue door",
         "to find the brother who had gone to sea", "to mend what had been broken",
         "to hear the truth once, plainly told", "to plant a tree that would outlive the town",
         "to bring the bell back to its tower", "to sleep one night without dreaming"]
TROUBLES = ["the bridge had been carried away", "the road was closed", "nobody would lend a boat",
            "the well had run dry", "the key fitted no door in the house",
            "the only witness had left the country", "the money was gone",
            "the dog would not stop barking", "the harvest had failed twice",
            "the lamp went out at the worst moment"]
SAYINGS = ["Who counts the stones will never reach the other side",
           "A door that is never opened is a wall", "What is heavy for one is light for three",
           "The river does not ask where it is going", "You cannot mend a net by looking at it",
           "An honest answer is worth a day's walk", "Even a short candle has two ends",
           "The best time to plant was last year, and the next best is today",
           "Whoever borrows a boat should also borrow an oar"]
ACTS = ["sat down on a stone and thought about it", "went to ask the neighbours",
        "lit a fire and waited for the morning", "laughed, because there was nothing else to do",
        "took the longer way through the marsh", "wrote everything down on the back of a bill",
        "shared the last of the bread", "climbed the tower to see further",
        "tied the two ends together and tried again", "said nothing and kept walking",
        "offered to work for a week without pay", "counted the coins once more"]
FEELINGS = ["was afraid, but not very", "felt lighter than before", "could not explain why",
            "was too tired to be angry", "remembered a promise made long ago",
            "had never seen anything so simple", "wished the evening would last",
            "understood at last what had been meant"]
HELP = ["The neighbours came with ropes and ladders.", "Somebody held the lantern.",
        "The children carried water in buckets.", "The smith worked until midnight.",
        "An old quarrel was forgotten for a day.", "The ferry made the crossing eleven times.",
        "Nobody asked who would pay.", "They sang, so that the work went faster."]
ENDS = ["The door is still blue today.", "Nobody in {place} has ever told the story differently.",
        "And if the bell has not fallen, it rings there still.",
        "The tree now gives shade to the whole square.",
        "Since then the lamp has been lit every night.",
        "What became of {thing}, nobody knows.",
        "The debt was paid, and a little more.", "That is why the road has a bend in it.",
        "Some say that it was luck; those who were there know better."]
QUESTIONS = ["What is this for?", "Have you come far?", "Who has sent you?", "Is it always so quiet?",
             "May I sit down?", "How much do you want for it?", "Do you know the way?"]
ANSWERS = ["That depends on who is asking.", "Further than I can remember.",
           "I had hoped that you would tell me.", "Only when the wind is in the east.",
           "There is room enough.", "It is not for sale, but you may have it.",
           "I know where it begins."]


def capital(text):
    return text[0].upper() + text[1:]


def definite(thing):
    return "the" + thing[1:]


def opening(name, place, thing, finder):
    return [f"{draw(TIMES)}, {finder} came to {place} and gave {name} {thing}.",
            f"{capital(name)} lived near {place} and owned little more than {thing}.",
            f"There was once, near {place}, {thing}, and it belonged to {name}.",
            f"{draw(TIMES)}, {name} found {thing} beside {place}."]


def tale(number):
    name, who, whose = draw(HEROES)
    place, thing, finder = draw(PLACES), draw(THINGS), draw(FINDERS)
    known = definite(thing)
    first = [draw(opening(name, place, thing, finder)), draw(WEATHER),
             f"More than anything else {name} wanted {draw(WANTS)}, but {draw(TROUBLES)}."]
    if draw([True, False]):
        first.append(f"So {who} {draw(ACTS)}.")
    second = [f'"{draw(QUESTIONS)}" asked {finder}.', f'"{draw(ANSWERS)}" said {name}.',
              f"Then {who} showed {whose} guest {known}, and {draw(['neither spoke', 'the guest smiled', 'both were silent', 'a dog barked far away'])}.",
              f'"{draw(SAYINGS)}," said {finder} at last.']
    third = [f"{capital(name)} {draw(FEELINGS)}.", draw(HELP),
             f"On the {draw(['second', 'third', 'seventh', 'ninth', 'last'])} day {who} {draw(ACTS)}, although {draw(TROUBLES)}.",
             f"{capital(who)} {draw(ACTS)}, and {draw(FEELINGS)}.", draw(WEATHER), draw(HELP)]
    last = [f"When it was done, {name} returned to {place} with {known}.",
            f'"{draw(SAYINGS)}," people say there.', draw(ENDS).format(place=place, thing=known)]
    count = 3 + (STATE[0] >> 40) % 4
    body = [" ".join(first), " ".join(second), " ".join(third[:count]), " ".join(last)]
    return f"{number}. A tale of {name} and {known}\n\n" + "\n\n".join(body) + "\n\n"


def main():
    text = "".join(tale(number) for number in range(1, 201))
    pathlib.Path(__file__).with_name("tales.txt").write_text(text, encoding="ascii")


if __name__ == "__main__":
    main()
