// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Two processes that talk VIPL to each other, case by case:
 *
 *	vipl_pair [-n NIC] [-l LEVEL] [-qf] [CASE…]		serves
 *	vipl_pair [-n NIC] [-l LEVEL] [-qf] -c HOST [CASE…]	calls
 *
 * LEVEL is u, d or r: unreliable, reliable delivery, reliable reception. With -q all queues
 * complete through a completion queue as well; -f says that packets are lost on the way. Both have
 * the same cases; each makes a connection of its own.
 */
#include <getopt.h>

#include "vipl_test.h"

static struct end end;
static int meeting;	 /* the receive at which the peer is awaited */
static const char *peer; /* NULL: this end serves */
static const char *nic = "nic0";
static bool lossy;
static VIP_RELIABILITY_LEVEL level = VIP_SERVICE_RELIABLE_DELIVERY;

static void meet(const char *discriminator)
{
	meeting = 63;
	if (peer)
		NEED(call(&end, peer, discriminator), VIP_SUCCESS);
	else
		serve(&end, discriminator);
}

/* A byte for each place of each message. */
static char pattern(unsigned message, unsigned at)
{
	return message * 31 + at * 7 + (at >> 8);
}

static void fill(int i, unsigned message, unsigned length)
{
	for (unsigned at = 0; at < length; at++)
		end.memory->buffers[i][at] = pattern(message, at);
}

static void check(int i, unsigned message, unsigned length)
{
	unsigned wrong = 0;

	for (unsigned at = 0; at < length; at++)
		wrong += end.memory->buffers[i][at] != pattern(message, at);
	EXPECT(wrong, 0);
}

/*
 * The last send of a case. The server leaves when it has it: where packets are lost or overtake
 * each other, its disconnect request may be there before the acknowledgement, and then the caller's
 * descriptor comes back flushed.
 */
static void sent_at_last(int i)
{
	VIP_DESCRIPTOR *d;

	if (!peer || !lossy)
		sent(&end, i);
	else if (VipSendWait(end.vi, LONG_TIME, &d) != VIP_SUCCESS)
		EXPECT(d ? d->CS.Status : 0, VIP_STATUS_DONE | VIP_STATUS_DESC_FLUSHED_ERROR);
}

/*
 * Both have come this far. Takes descriptor 62; a receive of 63 has been posted before. The next
 * receive is posted before the peer is told, who may be there first.
 */
static void meet_again(void)
{
	int now = meeting;

	meeting = now == 63 ? 59 : 63;
	post_recv(&end, meeting, 0);
	if (peer)
		received(&end, now);
	post_send(&end, 62, 0);
	sent_at_last(62);
	if (!peer)
		received(&end, now);
}

/* What the peer has to know to write here. */
struct window {
	uint64_t address;
	VIP_MEM_HANDLE handle;
};

/* Tells the peer where buffer i is, and learns where its is. Takes 60 and 61, which has been posted
 * before. */
static struct window exchange(int i)
{
	struct window mine = {(uintptr_t)end.memory->buffers[i], end.handle}, theirs;

	memcpy(end.memory->buffers[60], &mine, sizeof(mine));
	post_send(&end, 60, sizeof(mine));
	sent(&end, 60);
	received(&end, 61);
	memcpy(&theirs, end.memory->buffers[61], sizeof(theirs));
	return theirs;
}

static VIP_DESCRIPTOR *describe_rdma(int i, unsigned op, struct window remote, unsigned length)
{
	VIP_DESCRIPTOR *d = describe(&end, i, length);

	d->CS.Control = op;
	d->CS.SegCount = 2;
	d->DS[1] = d->DS[0];
	d->DS[0].Remote.Data.AddressBits = remote.address;
	d->DS[0].Remote.Handle = remote.handle;
	d->DS[0].Remote.Reserved = 0;
	return d;
}

static void post(VIP_DESCRIPTOR *d)
{
	NEED(VipPostSend(end.vi, d, end.handle), VIP_SUCCESS);
}

static bool reliable(void)
{
	return level != VIP_SERVICE_UNRELIABLE;
}

/* The server leaves first: when the caller knows, nothing is on its way any more. */
static void part(void)
{
	double limit = seconds() + LONG_TIME / 1000;
	VIP_BOOLEAN send_empty, recv_empty;
	VIP_VI_ATTRIBUTES attributes;
	VIP_VI_STATE state;

	do {
		drain(VipSendDone, end.vi);
		NEED(VipQueryVi(end.vi, &state, &attributes, &send_empty, &recv_empty),
		     VIP_SUCCESS);
	} while (peer && state == VIP_STATE_CONNECTED && seconds() < limit);
	if (peer)
		EXPECT(state, VIP_STATE_ERROR);
	destroy_vi(&end);
}

static void pingpong(void)
{
	const unsigned rounds = 300;

	create_vi(&end);
	post_recv(&end, 0, BUFFER);
	meet("pingpong");
	for (unsigned i = 0; i < rounds; i++) {
		unsigned length = i * 61 % BUFFER;
		VIP_DESCRIPTOR *d;

		if (peer) {
			fill(1, i, length);
			post_send(&end, 1, length);
			if (i < rounds - 1)
				EXPECT(sent(&end, 1)->CS.Status,
				       VIP_STATUS_DONE | VIP_STATUS_OP_SEND);
			else
				sent_at_last(1);
		}
		d = received(&end, 0);
		EXPECT(d->CS.Status, VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE);
		EXPECT(d->CS.Length, length);
		check(0, i, length);
		post_recv(&end, 0, BUFFER);
		if (!peer) {
			fill(1, i, length);
			post_send(&end, 1, length);
			sent(&end, 1);
		}
	}
	part();
}

/* Zero length with and without segments, immediate data or not: each is a message. */
static void immediate(void)
{
	create_vi(&end);
	post_recv(&end, 0, 16);
	post_recv(&end, 1, 16);
	post_recv(&end, 2, 16);
	post_recv(&end, 63, 0);
	meet("immediate");
	for (int i = 0; i < 3; i++) {
		VIP_DESCRIPTOR *d = describe(&end, 3 + i, i == 2 ? 16 : 0);

		d->CS.SegCount = i;
		if (i == 2) {
			d->CS.SegCount = 1;
			d->CS.Control = VIP_CONTROL_IMMEDIATE;
		}
		if (i == 0)
			d->CS.Control = VIP_CONTROL_IMMEDIATE;
		d->CS.ImmediateData = 0x12345678 + i;
		post(d);
		EXPECT(sent(&end, 3 + i)->CS.Status, VIP_STATUS_DONE);
	}
	for (int i = 0; i < 3; i++) {
		VIP_DESCRIPTOR *d = received(&end, i);

		EXPECT(d->CS.Status, VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE |
					     (i == 1 ? 0 : VIP_STATUS_IMMEDIATE));
		EXPECT(d->CS.Length, i == 2 ? 16 : 0);
		if (i != 1)
			EXPECT(d->CS.ImmediateData, 0x12345678 + i);
	}
	meet_again();
	part();
}

/* RDMA writes take no receive, but with immediate data. */
static void rdma_write(void)
{
	struct window theirs;
	VIP_DESCRIPTOR *d;

	create_vi(&end);
	post_recv(&end, 61, 64);
	post_recv(&end, 0, 16);
	post_recv(&end, 63, 0);
	meet("rdma_write");
	theirs = exchange(1);
	fill(2, 5, BUFFER);
	post(describe_rdma(2, VIP_CONTROL_OP_RDMAWRITE, theirs, 5000));
	d = sent(&end, 2);
	EXPECT(d->CS.Status, VIP_STATUS_DONE | VIP_STATUS_OP_RDMA_WRITE);
	theirs.address += 5000;
	d = describe_rdma(3, VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_IMMEDIATE, theirs, 1000);
	d->DS[1].Local.Data.Address = end.memory->buffers[2] + 5000;
	d->CS.ImmediateData = 77;
	post(d);
	d = sent(&end, 3);
	EXPECT(d->CS.Status, VIP_STATUS_DONE | VIP_STATUS_OP_RDMA_WRITE);
	d = received(&end, 0);
	EXPECT(d->CS.Status,
	       VIP_STATUS_DONE | VIP_STATUS_OP_REMOTE_RDMA_WRITE | VIP_STATUS_IMMEDIATE);
	EXPECT(d->CS.ImmediateData, 77);
	EXPECT(d->CS.Length, 1000);
	check(1, 5, 6000);
	meet_again();
	part();
}

/* A send behind the fence is not sent before the read is done. */
static void rdma_read(void)
{
	struct window theirs;
	VIP_DESCRIPTOR *d;

	if (!(end.attributes.RDMAReadSupport & level))
		return;
	create_vi(&end);
	post_recv(&end, 61, 64);
	post_recv(&end, 63, 0);
	fill(1, 9, BUFFER);
	meet("rdma_read");
	theirs = exchange(1);
	memset(end.memory->buffers[2], 0, BUFFER);
	post(describe_rdma(2, VIP_CONTROL_OP_RDMAREAD, theirs, 60000));
	d = describe(&end, 62, 0);
	d->CS.Control = VIP_CONTROL_QFENCE;
	post(d);
	d = sent(&end, 2);
	EXPECT(d->CS.Status, VIP_STATUS_DONE | VIP_STATUS_OP_RDMA_READ);
	check(2, 9, 60000);
	sent_at_last(62);
	received(&end, 63);
	part();
}

/* Segments of a descriptor: so many of the buffer's bytes each, with gaps of one byte. */
static VIP_DESCRIPTOR *scatter(int i, unsigned count, unsigned size, int first)
{
	VIP_DESCRIPTOR *d = describe(&end, i, count * size);

	for (unsigned s = 0; s < count; s++) {
		d->DS[first + s].Local.Data.Address = end.memory->buffers[i] + s * (size + 1);
		d->DS[first + s].Local.Handle = end.handle;
		d->DS[first + s].Local.Length = size;
	}
	d->CS.SegCount = first + count;
	return d;
}

static void fill_scattered(int i, unsigned message, unsigned count, unsigned size)
{
	for (unsigned at = 0; at < count * size; at++)
		end.memory->buffers[i][at / size * (size + 1) + at % size] = pattern(message, at);
}

static void check_scattered(int i, unsigned message, unsigned count, unsigned size)
{
	unsigned wrong = 0;

	for (unsigned at = 0; at < count * size; at++)
		wrong += end.memory->buffers[i][at / size * (size + 1) + at % size] !=
			 pattern(message, at);
	EXPECT(wrong, 0);
}

/* Many segments, which no device takes: sends, receives, RDMA writes with and without immediate
 * data, reads. */
static void segments(void)
{
	static const unsigned counts[] = {1, 2, 7, 8, 9, 20, 100, 252, 510};
	struct window theirs;

	create_vi(&end);
	post_recv(&end, 61, 64);
	post_recv(&end, 63, 0);
	meet("segments");
	theirs = exchange(1);
	for (unsigned n = 0; n < sizeof(counts) / sizeof(*counts); n++) {
		unsigned count = counts[n], size = 113;
		VIP_DESCRIPTOR *d;

		/* Received by as many segments of another size. */
		NEED(VipPostRecv(end.vi, scatter(2, count, size + 2, 0), end.handle), VIP_SUCCESS);
		NEED(VipPostRecv(end.vi, scatter(3, count, size, 0), end.handle), VIP_SUCCESS);
		meet_again();
		fill_scattered(5, n, count, size);
		post(scatter(5, count, size, 0));
		EXPECT(sent(&end, 5)->CS.Status, VIP_STATUS_DONE);
		post(scatter(5, count, size, 0));
		sent(&end, 5);
		d = received(&end, 2);
		EXPECT(d->CS.Length, count * size);
		for (unsigned at = 0; at < count * size; at++)
			if (end.memory->buffers[2][at / (size + 2) * (size + 3) +
						   at % (size + 2)] != pattern(n, at)) {
				EXPECT(at, count * size);
				break;
			}
		EXPECT(received(&end, 3)->CS.Length, count * size);
		check_scattered(3, n, count, size);

		memset(end.memory->buffers[1], 0, BUFFER);
		post_recv(&end, 4, 0);
		meet_again();
		d = scatter(5, count, size, 1);
		d->CS.Control = VIP_CONTROL_OP_RDMAWRITE | (n & 1 ? VIP_CONTROL_IMMEDIATE : 0);
		d->DS[0].Remote.Data.AddressBits = theirs.address;
		d->DS[0].Remote.Handle = theirs.handle;
		post(d);
		EXPECT(sent(&end, 5)->CS.Status, VIP_STATUS_DONE | VIP_STATUS_OP_RDMA_WRITE);
		if (!(n & 1)) {
			post_send(&end, 6, 0);
			sent(&end, 6);
		}
		EXPECT(received(&end, 4)->CS.Length, n & 1 ? count * size : 0);
		check(1, n, count * size);
		if (!(end.attributes.RDMAReadSupport & level))
			continue;
		meet_again();
		d = scatter(7, count, size, 1);
		d->CS.Control = VIP_CONTROL_OP_RDMAREAD;
		d->DS[0].Remote.Data.AddressBits = theirs.address;
		d->DS[0].Remote.Handle = theirs.handle;
		post(d);
		EXPECT(sent(&end, 7)->CS.Status, VIP_STATUS_DONE | VIP_STATUS_OP_RDMA_READ);
		check_scattered(7, n, count, size);
		meet_again();
	}
	part();
}

/* Many under way, both ways, polled. A message is its number. */
static void stream(void)
{
	enum { MESSAGES = 3000, WINDOW = 30 };
	unsigned sent_count = 0, done = 0, got = 0, credits = WINDOW;
	VIP_DESCRIPTOR *d;

	create_vi(&end);
	for (int i = 0; i < 2 * WINDOW; i++)
		post_recv(&end, i, 4096);
	meet("stream");
	/* Each message says how many the other end may send because of it. */
	while (done < MESSAGES || got < MESSAGES) {
		if (sent_count < MESSAGES && credits && sent_count - done < 2) {
			int i = 60 + sent_count % 2;

			memcpy(end.memory->buffers[i], &sent_count, sizeof(sent_count));
			post_send(&end, i, 4096);
			sent_count++;
			credits--;
		}
		if (VipSendDone(end.vi, &d) == VIP_SUCCESS)
			done++;
		else if (d && (!peer || !lossy || done < MESSAGES - 2))
			NEED(d->CS.Status, VIP_STATUS_DONE);
		else if (d)
			done++; /* as sent_at_last() says */
		if (VipRecvDone(end.vi, &d) == VIP_SUCCESS) {
			unsigned number;

			memcpy(&number, d->DS[0].Local.Data.Address, sizeof(number));
			EXPECT(number, got);
			got++;
			if (got < MESSAGES)
				NEED(VipPostRecv(end.vi, d, end.handle), VIP_SUCCESS);
			credits++;
		}
	}
	EXPECT(got, MESSAGES);
	part();
}

static void await_state(VIP_VI_STATE wanted)
{
	double limit = seconds() + LONG_TIME / 1000;
	VIP_BOOLEAN send_empty, recv_empty;
	VIP_VI_ATTRIBUTES attributes;
	VIP_VI_STATE state;

	do
		NEED(VipQueryVi(end.vi, &state, &attributes, &send_empty, &recv_empty),
		     VIP_SUCCESS);
	while (state != wanted && seconds() < limit);
	EXPECT(state, wanted);
}

/* A message longer than its receive: both ends learn it, and both can connect again. */
static void too_long(void)
{
	VIP_DESCRIPTOR *d;

	if (!reliable())
		return;
	create_vi(&end);
	post_recv(&end, 0, peer ? 16 : 15);
	post_recv(&end, 1, 16);
	meet("too_long");
	if (peer) {
		post_send(&end, 2, 16);
		EXPECT(VipSendWait(end.vi, LONG_TIME, &d), VIP_DESCRIPTOR_ERROR);
		EXPECT(d->CS.Status & VIP_STATUS_ERROR_MASK, level == VIP_SERVICE_RELIABLE_RECEPTION
								     ? VIP_STATUS_REMOTE_DESC_ERROR
								     : VIP_STATUS_TRANSPORT_ERROR);
	} else {
		EXPECT(VipRecvWait(end.vi, LONG_TIME, &d), VIP_DESCRIPTOR_ERROR);
		EXPECT(d->CS.Status & VIP_STATUS_ERROR_MASK, VIP_STATUS_LENGTH_ERROR);
	}
	await_state(VIP_STATE_ERROR);
	/* What is posted now, and what was, is flushed. */
	post_recv(&end, 3, 16);
	for (int i = peer ? 0 : 1; i < 4; i = i ? i + 2 : 1) {
		EXPECT(VipRecvWait(end.vi, LONG_TIME, &d), VIP_DESCRIPTOR_ERROR);
		EXPECT_TRUE(d == &end.memory->descriptors[i].d);
		EXPECT(d->CS.Status & VIP_STATUS_ERROR_MASK, VIP_STATUS_DESC_FLUSHED_ERROR);
	}
	EXPECT(VipDisconnect(end.vi), VIP_SUCCESS);
	post_recv(&end, 63, 0);
	meet("too_long again");
	meet_again();
	part();
}

/* A message without a receive: dropped, or the end of the connection. */
static void no_receive(void)
{
	VIP_DESCRIPTOR *d;

	create_vi(&end);
	if (peer || !reliable())
		post_recv(&end, 63, 0);
	meet("no_receive");
	if (!reliable()) {
		/*
		 * Of many to one receive at least one arrives; the others leave no
		 * trace. With the one that has arrived the receiver may go, and what is
		 * then under way is flushed.
		 */
		for (int i = 0; peer && i < 10; i++) {
			post_send(&end, i, 0);
			VipSendWait(end.vi, LONG_TIME, &d);
			EXPECT_TRUE(d == &end.memory->descriptors[i].d);
			EXPECT_TRUE(d->CS.Status == VIP_STATUS_DONE ||
				    (i && d->CS.Status == (VIP_STATUS_DONE |
							   VIP_STATUS_DESC_FLUSHED_ERROR)));
		}
		if (!peer)
			received(&end, 63);
		destroy_vi(&end);
		return;
	}
	if (peer) {
		post_send(&end, 0, 16);
		EXPECT(VipSendWait(end.vi, LONG_TIME, &d), VIP_DESCRIPTOR_ERROR);
		EXPECT(d->CS.Status, VIP_STATUS_DONE | VIP_STATUS_TRANSPORT_ERROR);
	}
	await_state(VIP_STATE_ERROR);
	destroy_vi(&end);
}

/* Where the peer may not write. */
static void refused(void)
{
	VIP_MEM_ATTRIBUTES attributes = {.Ptag = end.ptag};
	struct window theirs;
	VIP_MEM_HANDLE closed;
	VIP_DESCRIPTOR *d;

	if (!reliable())
		return;
	NEED(VipRegisterMem(end.nic, end.memory, sizeof(*end.memory), &attributes, &closed),
	     VIP_SUCCESS);
	create_vi(&end);
	post_recv(&end, 61, 64);
	post_recv(&end, 63, 0);
	meet("refused");
	if (peer) {
		received(&end, 61);
		memcpy(&theirs, end.memory->buffers[61], sizeof(theirs));
	} else {
		/* Whether this is acknowledged before the connection breaks, nobody knows. */
		theirs = (struct window){(uintptr_t)end.memory->buffers[1], closed};
		memcpy(end.memory->buffers[60], &theirs, sizeof(theirs));
		post_send(&end, 60, sizeof(theirs));
	}
	if (peer) {
		post(describe_rdma(2, VIP_CONTROL_OP_RDMAWRITE, theirs, 16));
		EXPECT(VipSendWait(end.vi, LONG_TIME, &d), VIP_DESCRIPTOR_ERROR);
		EXPECT(d->CS.Status,
		       VIP_STATUS_DONE | VIP_STATUS_OP_RDMA_WRITE | VIP_STATUS_RDMA_PROT_ERROR);
	}
	await_state(VIP_STATE_ERROR);
	destroy_vi(&end);
	EXPECT(VipDeregisterMem(end.nic, end.memory, closed), VIP_SUCCESS);
}

/* One VI, connected again and again; receives are posted before each time. */
static void again(void)
{
	create_vi(&end);
	for (int i = 0; i < 20; i++) {
		post_recv(&end, 63, 0);
		meet("again");
		meet_again();
		if (peer)
			await_state(VIP_STATE_ERROR);
		EXPECT(VipDisconnect(end.vi), VIP_SUCCESS);
		drain(VipSendDone, end.vi);
		EXPECT(drain(VipRecvDone, end.vi), 1);
	}
	destroy_vi(&end);
}

/* The server does not want it; the caller's receives stay posted. Then attributes that differ. */
static void rejected(void)
{
	union address local, remote;
	VIP_VI_ATTRIBUTES attributes, changed = end.vi_attributes;
	VIP_CONN_HANDLE conn;

	create_vi(&end);
	post_recv(&end, 63, 0);
	if (peer) {
		EXPECT(call(&end, peer, "rejected"), VIP_REJECT);
		await_state(VIP_STATE_IDLE);
		EXPECT(call(&end, peer, "mismatch"), VIP_SUCCESS);
	} else {
		make_address(&end, &local, NULL, "rejected");
		NEED(VipConnectWait(end.nic, &local.net, LONG_TIME, &remote.net, &attributes,
				    &conn),
		     VIP_SUCCESS);
		EXPECT(attributes.ReliabilityLevel, level);
		EXPECT(remote.net.DiscriminatorLen, 6);
		EXPECT(memcmp(remote.net.HostAddress + remote.net.HostAddressLen, "caller", 6), 0);
		EXPECT(VipConnectReject(conn), VIP_SUCCESS);
		EXPECT(VipConnectReject(conn), VIP_INVALID_PARAMETER);
		changed.MaxTransferSize /= 2;
		EXPECT(VipSetViAttributes(end.vi, &changed), VIP_SUCCESS);
		make_address(&end, &local, NULL, "mismatch");
		NEED(VipConnectWait(end.nic, &local.net, LONG_TIME, &remote.net, &attributes,
				    &conn),
		     VIP_SUCCESS);
		EXPECT(VipConnectAccept(conn, end.vi), VIP_INVALID_MTU);
		if (level != VIP_SERVICE_RELIABLE_DELIVERY) {
			changed = end.vi_attributes;
			changed.EnableRdmaRead = VIP_FALSE;
			changed.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
			EXPECT(VipSetViAttributes(end.vi, &changed), VIP_SUCCESS);
			EXPECT(VipConnectAccept(conn, end.vi), VIP_INVALID_RELIABILITY_LEVEL);
		}
		EXPECT(VipSetViAttributes(end.vi, &end.vi_attributes), VIP_SUCCESS);
		EXPECT(VipConnectAccept(conn, end.vi), VIP_SUCCESS);
		EXPECT(VipConnectAccept(conn, end.vi), VIP_INVALID_PARAMETER);
	}
	meeting = 63;
	meet_again();
	part();
}

/* Peers with the same discriminator, as some programs have it, and with two. */
static void peers(void)
{
	static const char *const names[2][2] = {{"same", "same"}, {"mine", "yours"}};

	for (int i = 0; i < 2; i++) {
		union address local, remote;
		VIP_VI_ATTRIBUTES attributes;
		VIP_RETURN result;

		create_vi(&end);
		post_recv(&end, 63, 0);
		make_address(&end, &local, NULL, names[i][peer != NULL]);
		/* The server knows its caller's address by this name, too, if they are on one host.
		 * */
		make_address(&end, &remote, peer ? peer : getenv("VIPL_PEER"),
			     names[i][peer == NULL]);
		EXPECT(VipConnectPeerDone(end.vi, &attributes), VIP_INVALID_STATE);
		NEED(VipConnectPeerRequest(end.vi, &local.net, &remote.net, LONG_TIME),
		     VIP_SUCCESS);
		EXPECT(VipConnectPeerRequest(end.vi, &local.net, &remote.net, LONG_TIME),
		       VIP_INVALID_STATE);
		if (i)
			while ((result = VipConnectPeerDone(end.vi, &attributes)) == VIP_NOT_DONE)
				usleep(100);
		else
			result = VipConnectPeerWait(end.vi, &attributes);
		NEED(result, VIP_SUCCESS);
		EXPECT(attributes.ReliabilityLevel, level);
		EXPECT(VipConnectPeerDone(end.vi, &attributes), VIP_INVALID_STATE);
		meeting = 63;
		meet_again();
		part();
	}
}

/* Many peers at once, as programs have it that connect all to all: their requests cross. */
static void crossing(void)
{
	enum { COUNT = 8 };
	VIP_VI_HANDLE vis[COUNT];

	for (int i = 0; i < COUNT; i++) {
		char name[] = {'a' + i, 0};
		union address local, remote;

		create_vi(&end);
		vis[i] = end.vi;
		post_recv(&end, i, 16);
		make_address(&end, &local, NULL, name);
		make_address(&end, &remote, peer ? peer : getenv("VIPL_PEER"), name);
		NEED(VipConnectPeerRequest(end.vi, &local.net, &remote.net, LONG_TIME),
		     VIP_SUCCESS);
	}
	for (int i = 0; i < COUNT; i++) {
		VIP_VI_ATTRIBUTES attributes;

		end.vi = vis[i];
		NEED(VipConnectPeerWait(end.vi, &attributes), VIP_SUCCESS);
		if (peer)
			received(&end, i);
		post_send(&end, COUNT + i, 16);
		sent(&end, COUNT + i);
		if (!peer)
			received(&end, i);
	}
	for (int i = 0; i < COUNT; i++) {
		end.vi = vis[i];
		part();
	}
}

/* A malformed descriptor completes in its turn, and ends a reliable connection;
 * an unreliable one goes on. */
static void malformed(void)
{
	VIP_DESCRIPTOR *d;

	create_vi(&end);
	for (int i = 0; i < 4; i++)
		post_recv(&end, i, 16);
	meet("malformed");
	if (!peer) {
		for (int i = 0; i < (reliable() || lossy ? 2 : 3); i++)
			EXPECT(received(&end, i)->CS.Length, 16);
		if (reliable())
			await_state(VIP_STATE_ERROR);
		destroy_vi(&end);
		return;
	}
	post_send(&end, 10, 16);
	post_send(&end, 11, 16);
	d = describe(&end, 12, 16);
	d->DS[0].Local.Handle ^= 0x777;
	post(d);
	post_send(&end, 13, 16);
	sent(&end, 10);
	sent(&end, 11);
	EXPECT(VipSendWait(end.vi, LONG_TIME, &d), VIP_DESCRIPTOR_ERROR);
	EXPECT_TRUE(d == &end.memory->descriptors[12].d);
	EXPECT(d->CS.Status, VIP_STATUS_DONE | VIP_STATUS_PROTECTION_ERROR);
	EXPECT(VipSendWait(end.vi, LONG_TIME, &d), reliable() ? VIP_DESCRIPTOR_ERROR : VIP_SUCCESS);
	EXPECT(d->CS.Status & VIP_STATUS_ERROR_MASK,
	       reliable() ? VIP_STATUS_DESC_FLUSHED_ERROR : 0);
	if (reliable())
		await_state(VIP_STATE_ERROR);
	destroy_vi(&end);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{"pingpong", pingpong},	  {"immediate", immediate},   {"rdma_write", rdma_write},
	{"rdma_read", rdma_read}, {"segments", segments},     {"stream", stream},
	{"too_long", too_long},	  {"no_receive", no_receive}, {"refused", refused},
	{"again", again},	  {"rejected", rejected},     {"peers", peers},
	{"crossing", crossing},	  {"malformed", malformed},
};

static bool is_wanted(const char *name, char **wanted)
{
	if (!*wanted)
		return true;
	for (; *wanted; wanted++) {
		if (!strcmp(name, *wanted))
			return true;
	}
	return false;
}

int main(int argc, char **argv)
{
	bool cq = false;
	int option;

	while ((option = getopt(argc, argv, "n:l:qfc:")) > 0) {
		switch (option) {
		case 'n': nic = optarg; break;
		case 'c': peer = optarg; break;
		case 'q': cq = true; break;
		case 'f': lossy = true; break;
		case 'l':
			level = *optarg == 'u'	 ? VIP_SERVICE_UNRELIABLE
				: *optarg == 'd' ? VIP_SERVICE_RELIABLE_DELIVERY
						 : VIP_SERVICE_RELIABLE_RECEPTION;
			break;
		default: return 2;
		}
	}
	open_end(&end, nic);
	if (cq)
		NEED(VipCreateCQ(end.nic, 256, &end.cq), VIP_SUCCESS);
	end.vi_attributes.ReliabilityLevel = level;
	if (level == VIP_SERVICE_UNRELIABLE)
		end.vi_attributes.EnableRdmaRead = VIP_FALSE;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		if (!is_wanted(cases[i].name, argv + optind))
			continue;
		current_case = cases[i].name;
		cases[i].run();
	}
	if (end.cq)
		EXPECT(VipDestroyCQ(end.cq), VIP_SUCCESS);
	close_end(&end);
	return failures != 0;
}
