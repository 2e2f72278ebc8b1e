#include "text/tokenizer_spec.h"
