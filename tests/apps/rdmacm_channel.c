/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Preloaded into rping where it serves, whose main thread destroys the event channel at the end.
 * Its other thread may just be about to wait there for the next event, finds no such descriptor
 * then and ends the process with status 255. The channel ends with the process.
 */
struct rdma_event_channel;

__attribute__((visibility("default"))) void
rdma_destroy_event_channel(struct rdma_event_channel *channel);
void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	(void)channel;
}
