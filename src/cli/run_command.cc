#include "cli/commands.h"
namespace drafthorse {
Status run_command(const Options&) { return Error{ErrorKind::unsupported, "not yet", ""}; }
}  // namespace drafthorse
