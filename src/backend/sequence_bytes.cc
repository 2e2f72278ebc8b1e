#include "backend/backend.h"
#include "backend/cpu/kv_pool.h"

namespace drafthorse {

Result<SequenceBytes> sequence_bytes(const Network& network) {
  Result<cpu::KvLayout> layout = cpu::kv_layout(network);
  if (!layout) return layout.error();
  SequenceBytes bytes;
  if (layout->has_positions()) bytes.position = (layout->block_bytes + cpu::kKvBlock - 1) / cpu::kKvBlock;
  bytes.fixed = uint64_t(layout->recurrent.blocks) * layout->block_bytes;
  return bytes;
}

}  // namespace drafthorse
