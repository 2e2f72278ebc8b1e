#include "cli/commands.h"
namespace drafthorse {
Status bench_command(const Options&) { return Error{ErrorKind::unsupported, "not yet", ""}; }
}  // namespace drafthorse
