#include "cli/commands.h"
namespace drafthorse {
Status inspect_command(const Options&) { return Error{ErrorKind::unsupported, "not yet", ""}; }
}  // namespace drafthorse
