"""The test corpus of the tokenisers: at least 2,000 nasty lines, the same for the same seed.

Every sentence here was written for this project. `lines()` returns bytes; some lines are not valid UTF-8 on purpose.
"""

import random

SENTENCES = [
    "The old mill by the river hasn't turned since the flood of 1987.",
    "I'll bring two loaves, she'd said; we've got cheese, they're late, I'm hungry, don't wait.",
    "Her HTTPServer2 restarts at 04:30, doesn't it? O'Neill's answer: \"It'S FINE, IT'LL HOLD\".",
    "Der Bäcker öffnet früh, schließt spät und grüßt jeden Straßenfeger.",
    "L'élève n'a pas mangé à midi; où est-il passé, s'il vous plaît?",
    "El niño pequeño corrió detrás del ñandú. ¿Quién lo vio? ¡Nadie!",
    "O coração não esquece o que a razão já perdeu em março.",
    "Łódź leży daleko od morza, więc żaden żółw tu nie dopłynie.",
    "Příliš mnoho lodí zůstalo v přístavu, řekl stařec u okna.",
    "Bugün hava çok güzel, İzmir'de ışıl ışıl bir öğle vakti.",
    "Kissa istui mökin pöydällä ja söi hyvää leipää.",
    "Þetta er ekki auðvelt, sagði gamla konan við fjörðinn.",
    "Az őszi szél elvitte a fűzfa utolsó leveleit is.",
    "Con mèo nhỏ ngủ trên mái nhà, dưới ánh trăng rất sáng.",
    "Старый мост скрипел, когда поезд шёл через реку ночью.",
    "Вечір був тихий, і їжак повільно йшов додому.",
    "Η γάτα κοιμάται στον ήλιο, δίπλα στο παλιό πηγάδι.",
    "הילד קרא ספר ישן ליד החלון, ואמו שתתה תה.",
    "قرأ الولد كتاباً قديماً قرب النافذة، وكانت الشمسُ تغرب.",
    "گربه‌ها روی دیوار نشسته‌اند و باران را تماشا می‌کنند.",
    "बूढ़े किसान ने खेत में पानी दिया और बच्चों को कहानी सुनाई।",
    "নদীর ধারে একটি ছোট নৌকা বাঁধা আছে।",
    "மழை பெய்தது; சிறுவன் குடையை மறந்துவிட்டான்.",
    "పిల్లి చెట్టు మీద కూర్చుని పక్షిని చూసింది.",
    "แมวตัวเล็กนอนหลับอยู่ใต้ต้นไม้ใหญ่ริมแม่น้ำ",
    "ຝົນຕົກໜັກໃນຕອນແລງ",
    "ငါးသည် ရေထဲတွင် ကူးနေသည်။",
    "古い橋の上で、子どもたちが川の魚を数えていた。カタカナもある。",
    "河边的老磨坊自从1987年的洪水以后就再也没有转动过。",
    "老師說：「今天不用交作業」，學生們都笑了。",
    "오래된 다리 위에서 아이들이 물고기를 세고 있었다.",
    "პატარა კატა ძველ ხიდზე იჯდა.",
    "Ծեր ձկնորսը նստել էր գետի ափին։",
    "ድመቷ በዛፉ ስር ተኛች።",
    "Paka mdogo analala chini ya mti mkubwa karibu na mto.",
    "Ang matandang tulay ay umuugoy tuwing dumaraan ang tren.",
    "Cath bach oedd yn cysgu ar bont hen yr afon.",
    "Ꭰꮒꮳꮃ ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝕞𝕒𝕥𝕙 𝐛𝐨𝐥𝐝 𝒊𝒕𝒂𝒍𝒊𝒄 letters are Lu and Ll",
    "Ǆabe ǅep ǆak: digraphs with a title case; ﬁne ﬂow ligatures ﬀ",
]

CODE = [
    "def f(x, *args, **kw):\n    return x if x else {'a': [1, 2.5e-3], \"b\": None}  # don't",
    "for (size_t i = 0; i < n; ++i) {\n\tsum += a[i] * b[i];\r\n}\n",
    "SELECT name, COUNT(*) FROM t WHERE id<>'O''Brien' GROUP BY 1;",
    "<div class=\"x\"><p>Hello</p><br/></div>\n<table><tr><td>1</td></tr></table>",
    "https://example.org/a/b/../c?q=%20x&y=1#frag//path/",
    "#!/bin/sh\nset -eu\nprintf '%s\\n' \"${HOME:-/root}\" >&2 || exit 1\n\n\n",
    "\\begin{align}\\alpha_{i}^{2} &= \\frac{1}{2}\\\\ \\end{align}",
    "{\"k\": [true, false, null, -1.5E+10, \"\\u00e9\\n\"]}",
    "camelCaseWordHTTPServerXMLHttpRequest2GoIOError snake_case_word SCREAMING_CASE",
    "a->b::c<T&&>(d) != !e ?? f?.g ||= h ** i // j /* k */ /// l",
]

SPECIAL = [
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|im_start|>user\n", "<think>", "</think>", "<tool_call>", "</tool_call>",
    "<|im_start", "|im_end|>", "< |im_end|>", "<|IM_END|>", "<|begin_of_text|>", "<|eot_id|>", "<s>", "</s>", "<unk>",
    "[INST]", "[/INST]", "<bos>", "<start_of_turn>", "<end_of_turn>\n", "<0x0A>", "<0xFF>", "▁", "▁▁the", "Ġ", "Ġthe Ċ", "Ã©",
    "<fim prefix>", "<｜end▁of▁sentence｜>", "<word>", "x<word>y", "<trim> ", "  <trim>  ", "<mask>", " <mask>",
]

EMOJI = [
    "😀", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪🇫🇷", "❤️", "☕", "1️⃣2️⃣", "🧑🏿‍🚀", "♻︎", "🫶", "🤷🏻‍♀️",
]

MARKS = [
    "e\u0301", "é", "n\u0303o", "a\u0308\u0323", "a\u0323\u0308", "q\u0307\u0323", "\u0301", " \u0301x", "Z\u0351\u0354a\u0337l\u0321g\u0362o",
    "\u1100\u1161\u11a8", "각", "क\u094dष", "ক\u09cd", "x\u20dd", "\u05e9\u05c1", "\u0627\u0653", "Å", "Å", "Å", "\u0344", "ﬁ", "①", "½", "²",
    "ſt", "I'ſ", "'ſ", "\u2019s", "Ω", "ẞß", "ǰ", "ŉ",
]

SPACES = [
    " ", "  ", "   ", "    ", "        ", "\t", "\t\t", " \t ", "\n", "\n\n", "\n\n\n", "\r\n", "\r\n\r\n", " \n", "\n ", " \n \n ", "\u00a0",
    "\u2003", "\u3000", "\u2028", "\u0085", "\v", "\f", "\u200b", "\ufeff", "\u200d", " \r", "  \t\n  ", "\u1680", "\u202f", "\u00ad", "\u2060",
]

DIGITS = [
    "0", "7", "42", "100", "1234", "12345", "1234567890", "3.14159", "1,000,000", "1e-9", "0x1F", "٣٤٥", "१२३४", "Ⅷ", "½¾", "²³", "１２３", "五十",
    "v2.0.1", "2026-11-30T17:00:00Z", "+49 (0)89 1234", "1st", "2nd", "99%", "$5", "€1.234,50", "𝟏𝟐𝟑", "౧౨",
]

CONTRACTIONS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"]

INVALID = [
    b"\x80", b"\xff", b"\xc0\xaf", b"\xe2\x82", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc3", b"\xe2\x28\xa1",
    b"\xf0\x80\x80\x80", b"\xfe\xfe", b"abc\xe9def", b"\xf8\x88\x80\x80\x80", b"\xc3\xa9\xc3", b"\xe0\x80\x80",
]

SYMBOLS = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~§¶•–—…“”‘’«»‹›€£¥©®™°±×÷←→↑↓∀∃∈∑√∞≠≤≥■□●○★☆♠♣♥♦♪✓✗"


def mixed_case(r, word):
    return "".join(c.upper() if r.random() < 0.5 else c.lower() for c in word)


def words(r, most=8):
    sentence = r.choice(SENTENCES).split(" ")
    start = r.randrange(len(sentence))
    return " ".join(sentence[start : start + r.randint(1, most)])


def contraction(r):
    return r.choice(["I", "you", "WE", "Straße", "它", "x1", ""]) + mixed_case(r, r.choice(CONTRACTIONS)) + r.choice(["", "s", "ed", " go", "1", "\n"])


def long_run(r):
    unit = r.choice(["a", "A", " ", "\n", "=", "-", "ab", "0", "中", "é", "e\u0301", "😀", "\t", "ha", "Aa", "\r\n", "\u0301", "▁", "/", "'s"])
    return unit * r.choice([5, 17, 33, 64, 129])


def random_points(r):
    blocks = [(0x20, 0x7F), (0xA0, 0x24F), (0x250, 0x2FF), (0x300, 0x36F), (0x370, 0x52F), (0x590, 0x5FF), (0x600, 0x6FF), (0x900, 0x97F),
              (0x1E00, 0x1EFF), (0x1F00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x218F), (0x2190, 0x23FF), (0x3040, 0x30FF), (0x4E00, 0x9FA5),
              (0xAC00, 0xD7A3), (0xFB00, 0xFB06), (0xFF01, 0xFF5E), (0x10400, 0x1044F), (0x1D400, 0x1D7FF), (0x1F300, 0x1F64F), (0x20000, 0x20100)]
    out = ""
    for _ in range(r.randint(2, 12)):
        low, high = r.choice(blocks)
        out += chr(r.randint(low, high))
    return out


PARTS = [
    (6, words), (2, lambda r: mixed_case(r, words(r, 3))), (3, lambda r: r.choice(SPACES)), (3, lambda r: r.choice(DIGITS)), (2, lambda r: r.choice(EMOJI)),
    (2, lambda r: r.choice(MARKS)), (2, contraction), (2, lambda r: r.choice(SPECIAL)), (1, lambda r: r.choice(CODE)[: r.randint(3, 30)]),
    (1, lambda r: "".join(r.choice(SYMBOLS) for _ in range(r.randint(1, 6)))), (1, random_points), (1, lambda r: str(r.randint(0, 10 ** r.randint(1, 9)))),
]


def lines(count=2200, seed=20261130):
    r = random.Random(seed)
    fixed = SENTENCES + CODE + SPECIAL + EMOJI + MARKS + SPACES + DIGITS + ["", "'", "''", "I'm", "I'M", "I'lL", "'S", "'sS", "\x00", "a\x00b"]
    out = [text.encode() for text in fixed] + list(INVALID)
    makers = [maker for weight, maker in PARTS for _ in range(weight)]
    while len(out) < count:
        kind = r.random()
        if kind < 0.06:
            line = (words(r, 2) + long_run(r) + words(r, 2)).encode()
        else:
            text = ""
            for _ in range(r.randint(1, 5)):
                text += r.choice(makers)(r) + r.choice(["", "", " "])
            line = text.encode()
            if kind < 0.16:
                at = r.randint(0, len(line))
                line = line[:at] + r.choice(INVALID) + line[at:]
        out.append(line)
    return out
